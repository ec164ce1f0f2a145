"""ZeRO-1: the optimizer state is sharded. The update goes between the two halves of the all-reduce."""

from zero_emulator.strategies.whole_gradients import WholeGradients


class Zero1(WholeGradients):
    """Reduce-scatter each layer's gradient once an iteration, update the own block, gather the weights.

    A rank sends f(N) Ψ of gradients and f(N) Ψ of weights: as much as plain data parallelism.
    Source: S. Rajbhandari et al., ZeRO, SC 2020.
    """

    name = "zero1"
    stage = 1

    def reduce(self, layer: int) -> None:
        self.reduce_scatter(layer)

    def finish_iteration(self, iteration: int) -> None:
        self.take_reduced()
        for params in self.layers:
            params.narrow_grad()
        self.update(iteration)
        self.gather_updated_weights()
