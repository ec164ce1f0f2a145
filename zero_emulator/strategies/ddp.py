"""Plain data parallelism: every rank keeps everything, and all of them make the same update."""

from collectives.communicator import IN_PLACE
from zero_emulator.dtypes import dtype_of
from zero_emulator.layout import Array
from zero_emulator.strategies.whole_gradients import WholeGradients


class DDP(WholeGradients):
    """All-reduce each layer's gradient once an iteration, in flight while the layers below it compute.

    A rank sends 2 f(N) Ψ: an all-reduce is one reduce-scatter and one all-gather. Where gradients are reduced
    in another dtype than they are kept in, it is those two, each in its own.
    Source: S. Li et al., PyTorch Distributed, VLDB 2020.
    """

    name = "ddp"
    stage = 0

    def reduce(self, layer: int) -> None:
        gradient, sharers = self.layers[layer].summed_grad, self.groups[layer].sharers
        if gradient.dtype == dtype_of(self.precision.reduce):
            self.works.append(sharers.all_reduce(IN_PLACE, gradient, **self.how("all_reduce", layer)))
        else:
            self.reduce_scatter(layer)

    def finish_iteration(self, iteration: int) -> None:
        for layer in self.take_reduced():
            gradient, sharers = self.layers[layer].summed_grad, self.groups[layer].sharers
            self.works.append(sharers.all_gather(IN_PLACE, gradient, **self.how("all_gather", layer)))
        self.wait()
        for params in self.layers:
            params.narrow_grad()
        self.update(iteration)

    def gather_gradient(self, layer: int) -> Array:
        return self.layers[layer].summed_grad
