"""Where the named tensors of a layer lie in one flat buffer."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy.typing as npt

from collectives.blocks import bounds, even_cut

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class FlatLayout:
    """Named tensors that lie one after the other, without gaps, in a flat buffer.

    >>> FlatLayout((("weight", (2, 3)), ("bias", (3,)))).size
    9
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def size(self) -> int:
        """Number of elements of all tensors together."""
        return sum(prod(shape) for _, shape in self.shapes)

    def views(self, flat: Array) -> dict[str, Array]:
        """The tensors by name, each a reshaped view of ``flat``: writing to one writes to the buffer.

        ``flat`` has shape (size,), else ValueError. Nothing is copied, not even where ``flat`` is strided.
        """
        if flat.shape != (self.size,):
            names = ", ".join(f"{name} {shape}" for name, shape in self.shapes)
            raise ValueError(
                f"a buffer of shape {flat.shape} does not hold {names}: pass one of shape ({self.size},)"
            )
        places = bounds([prod(shape) for _, shape in self.shapes])
        return {
            name: flat[place].reshape(shape) for (name, shape), place in zip(self.shapes, places, strict=True)
        }

    def block_sizes(self, world_size: int) -> tuple[int, ...]:
        """Elements in each rank's block: near-equal, unpadded, empty where ranks outnumber elements.

        A cut knows nothing of tensors: a block may begin in the middle of one.
        """
        return even_cut(self.size, world_size)
