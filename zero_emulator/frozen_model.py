"""A model that is never trained, to hold another against: on the device, or streamed to it layer by layer."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import numpy as np

from zero_emulator.layout import Array, Empty
from zero_emulator.losses import log_softmax
from zero_emulator.meter import Meter
from zero_emulator.model import Linear
from zero_emulator.offload import Slot, Slots, Transfer, Transfers

View = Callable[[int], Array]
"""A layer's flat weights on the device; ask for the layers in order, and let go of one before the next."""


class Weights(Protocol):
    """Where the weights of a frozen model are."""

    def in_order(self) -> AbstractContextManager[View]:
        """Views of all layers, for one forward."""


class ResidentWeights:
    """All of them on the device, all the time."""

    def __init__(self, weights: Sequence[Array], device: Meter) -> None:
        self._weights = _copies(weights, device)

    @contextmanager
    def in_order(self) -> Iterator[View]:
        yield self._weights.__getitem__


class StreamedWeights:
    """All of them on the host; on the device are the layer in use and, while it computes, the next.

    A forward takes one model's bytes over the link. With more slots than two it runs further ahead, with one
    nothing overlaps. Between forwards the device holds nothing, and others may use the slots.
    """

    def __init__(self, weights: Sequence[Array], host: Meter, transfers: Transfers, slots: Slots) -> None:
        self._weights = _copies(weights, host)
        self._transfers, self._slots = transfers, slots

    @contextmanager
    def in_order(self) -> Iterator[View]:
        layers = iter(range(len(self._weights)))
        ahead: deque[tuple[Slot, Transfer]] = deque()

        def view(layer: int) -> Array:
            while len(ahead) < self._slots.num and (coming := next(layers, None)) is not None:
                ahead.append(self._start(coming))
            slot, transfer = ahead.popleft()
            assert slot.name == _name(layer), f"{_name(layer)} is asked for, and {slot.name} comes next"
            transfer.wait()
            return slot.memory

        try:
            yield view
        finally:
            self._slots.drain()

    def _start(self, layer: int) -> tuple[Slot, Transfer]:
        weights, slot = self._weights[layer], self._slots.next(_name(layer))
        transfer = self._transfers.to_device(slot.name, weights, slot.write(weights.size, weights.dtype))
        slot.used_by("its copy to the device", transfer.wait)
        return slot, transfer


def _name(layer: int) -> str:
    return f"frozen layer {layer}"


class FrozenModel:
    """An MLP that only computes. ``empty`` makes its activations, of which two live at a time."""

    def __init__(self, layers: Sequence[Linear], weights: Weights, empty: Empty = np.empty) -> None:
        self.layers, self.weights, self._empty = tuple(layers), weights, empty

    def log_probabilities(self, x: Array) -> Array:
        """The logarithms of its softmax (rows, classes) for ``x`` (rows, inputs), in the dtype of both."""
        with self.weights.in_order() as view:
            for index, layer in enumerate(self.layers):
                # Bound to no name, neither the view nor what backward would need: or they would live on.
                x = layer.forward(view(index), x, self._empty)[0]
        return log_softmax(x)


def _copies(weights: Sequence[Array], meter: Meter) -> list[Array]:
    copies = [meter.empty("reference", array.shape, array.dtype) for array in weights]
    for copy, array in zip(copies, weights, strict=True):
        copy[...] = array
    return copies
