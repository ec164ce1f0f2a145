"""Walking long arrays piece by piece, so that temporaries stay small however long the arrays are."""

from collections.abc import Iterator

from zero_emulator.layout import Array

PIECE = 16384  # elements: a float64 piece is 128 KiB, which a core's cache holds along with its neighbours


def pieces(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Views of the same ``PIECE`` elements of every flat array, from front to back; the last may be shorter.

    ValueError where the arrays differ in size.
    """
    sizes = [array.size for array in arrays]
    if len(set(sizes)) > 1:
        raise ValueError(f"arrays of {sizes} elements do not walk side by side: pass the same shard of each")
    for start in range(0, sizes[0], PIECE):
        yield tuple(array[start : start + PIECE] for array in arrays)
