"""ZeRO-1: the optimizer state is sharded. The update goes between the two halves of the all-reduce."""

from collectives.communicator import IN_PLACE
from zero_emulator.layout import Array
from zero_emulator.strategies.base import Strategy


class Zero1(Strategy):
    """Reduce-scatter each layer's gradient once an iteration, update the own block, gather the weights.

    A rank sends f(N) Ψ of gradients and f(N) Ψ of weights: as much as plain data parallelism.
    Source: S. Rajbhandari et al., ZeRO, SC 2020.
    """

    name = "zero1"
    stage = 1

    def after_backward(self, layer: int, micro_batch: int, gradient: Array) -> None:
        self.accumulate(layer, gradient)
        if micro_batch == self.options.micro_batches - 1:
            params = self.layers[layer]
            self.works.append(self.comm.reduce_scatter(IN_PLACE, params.grad, sizes=params.sizes))

    def finish_iteration(self) -> None:
        self.wait()
        self.update()
        self.gather_updated_weights()
