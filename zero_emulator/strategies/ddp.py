"""Plain data parallelism: every rank keeps everything, and all of them make the same update."""

from collectives.communicator import IN_PLACE
from zero_emulator.layout import Array
from zero_emulator.strategies.base import Strategy


class DDP(Strategy):
    """All-reduce each layer's gradient once an iteration, while the layers below it still compute.

    A rank sends 2 f(N) Ψ: an all-reduce is one reduce-scatter and one all-gather.
    Source: S. Li et al., PyTorch Distributed, VLDB 2020.
    """

    name = "ddp"
    stage = 0

    def after_backward(self, layer: int, micro_batch: int, gradient: Array) -> None:
        self.accumulate(layer, gradient)
        if micro_batch == self.options.micro_batches - 1:
            params = self.layers[layer]
            self.works.append(self.comm.all_reduce(IN_PLACE, params.grad, sizes=params.sizes))

    def finish_iteration(self) -> None:
        self.wait()
        self.update()
