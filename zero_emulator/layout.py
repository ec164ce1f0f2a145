"""Where the named tensors of a layer lie in one flat buffer."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy.typing as npt

from collectives.blocks import bounds

Array = npt.NDArray[Any]
Shape = int | tuple[int, ...]

Empty = Callable[[Shape, npt.DTypeLike], Array]
"""Where new arrays come from: np.empty, or somebody who counts."""


@dataclass(frozen=True)
class FlatLayout:
    """Named tensors that lie one after the other in a flat buffer.

    ``padding`` is the number of zeros after each tensor; () for none anywhere.

    >>> FlatLayout((("weight", (2, 3)), ("bias", (3,)))).size
    9
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    padding: tuple[int, ...] = ()

    @property
    def num_params(self) -> int:
        """Number of elements of all tensors together."""
        return sum(prod(shape) for _, shape in self.shapes)

    @property
    def size(self) -> int:
        """Elements of the buffer, padding included."""
        return self.num_params + sum(self.padding)

    @property
    def places(self) -> dict[str, slice]:
        """Where each tensor lies."""
        sizes = [prod(shape) for _, shape in self.shapes]
        zeros = self.padding or (0,) * len(sizes)
        parts = [part for pair in zip(sizes, zeros, strict=True) for part in pair]
        return {name: place for (name, _), place in zip(self.shapes, bounds(parts)[::2], strict=True)}

    def views(self, flat: Array) -> dict[str, Array]:
        """The tensors by name, each a reshaped view of ``flat``: writing to one writes to the buffer.

        ``flat`` has shape (size,), else ValueError. Nothing is copied, not even where ``flat`` is strided.
        """
        if flat.shape != (self.size,):
            names = ", ".join(f"{name} {shape}" for name, shape in self.shapes)
            raise ValueError(
                f"a buffer of shape {flat.shape} does not hold {names}: pass one of shape ({self.size},)"
            )
        places = self.places
        return {name: flat[places[name]].reshape(shape) for name, shape in self.shapes}

    def clear_padding(self, flat: Array) -> None:
        """Set to zero what no tensor uses."""
        for place, zeros in zip(self.places.values(), self.padding, strict=False):
            flat[place.stop : place.stop + zeros] = 0
