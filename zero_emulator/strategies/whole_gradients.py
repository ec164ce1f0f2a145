"""What strategies share that keep gradients whole: micro-batches add up locally, and are reduced once."""

from abc import abstractmethod
from typing import Any

from collectives.communicator import IN_PLACE
from zero_emulator.dtypes import add_into, dtype_of
from zero_emulator.layout import Array
from zero_emulator.strategies.base import Strategy


class WholeGradients(Strategy):
    """Adds up micro-batches, and reduces each layer's gradient in flight while those below it compute."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.casts: list[tuple[int, Array]] = []  # gradients that are reduced in another dtype

    def after_backward(self, layer: int, micro_batch: int) -> None:
        self.close(layer)
        self.accumulate(layer, micro_batch)
        if micro_batch == self.options.micro_batches - 1:
            self.reduce(layer)

    @abstractmethod
    def reduce(self, layer: int) -> None:
        """Start to reduce a layer's gradient over the ranks."""

    def accumulate(self, layer: int, micro_batch: int) -> None:
        """Take the gradient of a micro-batch into the full one that is kept."""
        params, gradient = self.layers[layer], self.take_gradient()
        add_into(params.summed_grad, gradient, replace=micro_batch == 0)
        params.narrow_grad()
        if gradient is not params.summed_grad:
            self.buffers.give_back(gradient)

    def reduce_scatter(self, layer: int) -> None:
        """Reduce a layer's gradient to its blocks, in a cast of it if it travels in another dtype."""
        params, sharers = self.layers[layer], self.groups[layer].sharers
        wire = params.summed_grad
        if wire.dtype != dtype_of(self.precision.reduce):
            wire = self.buffers.take("buffer", params.size, self.precision.reduce)
            wire[...] = params.summed_grad
            self.casts.append((layer, wire))
        self.works.append(sharers.reduce_scatter(IN_PLACE, wire, **self.how("reduce_scatter", layer)))

    def take_reduced(self) -> list[int]:
        """Wait for the reductions and bring what was cast back; the layers that were."""
        self.wait()
        cast = []
        while self.casts:
            layer, wire = self.casts.pop(0)
            params = self.layers[layer]
            params.own_grad[...] = wire[params.own]
            self.buffers.give_back(wire)
            cast.append(layer)
        return cast
