"""ZeRO-1: the optimizer state is sharded. The update goes between the two halves of the all-reduce."""

from typing import Any

from collectives.communicator import IN_PLACE
from zero_emulator.dtypes import dtype_of
from zero_emulator.layer_params import LayerParams
from zero_emulator.layout import Array
from zero_emulator.strategies.base import Strategy


class Zero1(Strategy):
    """Reduce-scatter each layer's gradient once an iteration, update the own block, gather the weights.

    A rank sends f(N) Ψ of gradients and f(N) Ψ of weights: as much as plain data parallelism.
    Source: S. Rajbhandari et al., ZeRO, SC 2020.
    """

    name = "zero1"
    stage = 1
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
        wire = params.summed_grad
        if wire.dtype != dtype_of(self.precision.reduce):
            wire = self.buffers.take("buffer", params.size, self.precision.reduce)
            wire[...] = params.summed_grad
            self.reduced.append((params, wire))
        self.works.append(self.comm.reduce_scatter(IN_PLACE, wire, sizes=params.sizes))

    def finish_iteration(self) -> None:
        self.wait()
        self.take_reduced()
        for params in self.layers:
            params.narrow_grad()
        self.update()
        self.gather_updated_weights()

    def take_reduced(self) -> None:
        """Bring what was reduced in another dtype back to that of the gradients."""
        for params, wire in self.reduced:
            params.own_grad[...] = wire[params.own]
            self.buffers.give_back(wire)
        self.reduced.clear()
