"""Plain data parallelism: every rank keeps everything, and all of them make the same update."""

from typing import Any

from collectives.communicator import IN_PLACE
from zero_emulator.dtypes import dtype_of
from zero_emulator.layer_params import LayerParams
from zero_emulator.layout import Array
from zero_emulator.strategies.base import Strategy


class DDP(Strategy):
    """All-reduce each layer's gradient once an iteration, in flight while the layers below it compute.

    A rank sends 2 f(N) Ψ: an all-reduce is one reduce-scatter and one all-gather. Where gradients are reduced
    in another dtype than they are kept in, it is those two, each in its own.
    Source: S. Li et al., PyTorch Distributed, VLDB 2020.
    """

    name = "ddp"
    stage = 0
    reduces_every_micro_batch = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reduced: list[tuple[LayerParams, Array]] = []  # in another dtype, on their way

    def after_backward(self, layer: int, micro_batch: int) -> None:
        self.close(layer)
        self.accumulate(layer, micro_batch)
        if micro_batch < self.options.micro_batches - 1:
            return
        params = self.layers[layer]
        if params.summed_grad.dtype == dtype_of(self.precision.reduce):
            self.works.append(self.comm.all_reduce(IN_PLACE, params.summed_grad, sizes=params.sizes))
            return
        wire = self.buffers.take("buffer", params.size, self.precision.reduce)
        wire[...] = params.summed_grad
        self.works.append(self.comm.reduce_scatter(IN_PLACE, wire, sizes=params.sizes))
        self.reduced.append((params, wire))

    def finish_iteration(self) -> None:
        self.wait()
        self.gather_reduced()
        for params in self.layers:
            params.narrow_grad()
        self.update()

    def gather_reduced(self) -> None:
        """Bring what was reduced in another dtype back to that of the gradients, and to every rank."""
        for params, wire in self.reduced:
            params.own_grad[...] = wire[params.own]
            self.buffers.give_back(wire)
            self.works.append(self.comm.all_gather(IN_PLACE, params.summed_grad, sizes=params.sizes))
        self.reduced.clear()
        self.wait()

    def gather_gradient(self, layer: int) -> Array:
        return self.layers[layer].summed_grad
