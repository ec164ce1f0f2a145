"""How a flat buffer is cut into blocks: near-equal, unpadded, empty ones included."""

from collections.abc import Sequence
from itertools import accumulate


def even_cut(total: int, parts: int) -> tuple[int, ...]:
    """Sizes of ``parts`` blocks that differ by at most one, the larger ones first.

    >>> even_cut(10, 4)
    (3, 3, 2, 2)
    >>> even_cut(2, 4)
    (1, 1, 0, 0)
    """
    if total < 0 or parts < 1:
        raise ValueError(f"{total} elements do not cut into {parts} parts: give 0 or more, and 1 or more")
    size, larger = divmod(total, parts)
    return (size + 1,) * larger + (size,) * (parts - larger)


def bounds(sizes: Sequence[int]) -> tuple[slice, ...]:
    """Where each block lies in the flat buffer.

    >>> bounds((3, 0, 2))
    (slice(0, 3, None), slice(3, 3, None), slice(3, 5, None))
    """
    ends = tuple(accumulate(sizes))
    return tuple(slice(end - size, end) for size, end in zip(sizes, ends, strict=True))
