"""Plain data parallelism: every rank keeps everything, and all of them make the same update."""

from collectives.communicator import IN_PLACE
from zero_emulator.dtypes import dtype_of
from zero_emulator.layer_params import LayerParams
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

    def reduce(self, params: LayerParams) -> None:
        if params.summed_grad.dtype == dtype_of(self.precision.reduce):
            self.works.append(
                self.comm.all_reduce(IN_PLACE, params.summed_grad, **self.how("all_reduce", params))
            )
        else:
            self.reduce_scatter(params)

    def finish_iteration(self, iteration: int) -> None:
        for params in self.take_reduced():
            self.works.append(
                self.comm.all_gather(IN_PLACE, params.summed_grad, **self.how("all_gather", params))
            )
        self.wait()
        for params in self.layers:
            params.narrow_grad()
        self.update(iteration)

    def gather_gradient(self, layer: int) -> Array:
        return self.layers[layer].summed_grad
