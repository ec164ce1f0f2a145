"""Zeros that real systems put behind tensors so that buffers divide: what they cost can be counted, too."""

from collections.abc import Callable, Sequence
from math import prod

Shape = tuple[int, ...]
Padding = tuple[int, ...]
"""Zeros behind each tensor of a layer."""


def _none(shapes: Sequence[Shape], world_size: int) -> Padding:
    """Uneven blocks are ordinary."""
    return ()


def _even(shapes: Sequence[Shape], world_size: int) -> Padding:
    """Zeros at the end of a layer, to a multiple of the world size."""
    return _at_the_end(shapes, world_size)


def _double(shapes: Sequence[Shape], world_size: int) -> Padding:
    """Zeros at the end of a layer, to a multiple of twice the world size."""
    return _at_the_end(shapes, 2 * world_size)


def _rows(shapes: Sequence[Shape], world_size: int) -> Padding:
    """Whole rows of zeros behind each tensor, until its first dimension is a multiple of the world size."""
    return tuple(-shape[0] % world_size * prod(shape[1:]) for shape in shapes)


def _at_the_end(shapes: Sequence[Shape], multiple: int) -> Padding:
    return (*(0 for _ in shapes[1:]), -sum(map(prod, shapes)) % multiple)


PADDINGS: dict[str, Callable[[Sequence[Shape], int], Padding]] = {
    "none": _none,
    "even": _even,
    "rows": _rows,
    "2n": _double,
}
"""What a layer whose tensors have these shapes is padded by on so many ranks."""
