"""Full-size buffers that live for a moment: gathered views, gradients on their way to their shards."""

from collections import defaultdict
from typing import Any

import numpy as np

from zero_emulator.dtypes import dtype_of
from zero_emulator.layout import Array


class BufferPool:
    """Lends flat buffers and takes them back, for one iteration: ``clear`` lets go of the memory.

    With ``poison`` a buffer is filled with NaN when it comes back, so whoever still uses it sees nonsense at
    once, and one that is reused without being overwritten shows.
    """

    def __init__(self, *, poison: bool = False) -> None:
        self._poison = poison
        self._idle: dict[tuple[int, np.dtype[Any]], list[Array]] = defaultdict(list)

    def take(self, size: int, dtype: str) -> Array:
        """A buffer of ``size`` elements, whose contents are anything."""
        idle = self._idle[size, dtype_of(dtype)]
        if idle:
            return idle.pop()
        buffer = np.empty(size, dtype_of(dtype))
        if self._poison:
            buffer.fill(np.nan)
        return buffer

    def give_back(self, buffer: Array) -> None:
        """The caller no longer uses it, and nothing of it is in flight."""
        if self._poison:
            buffer.fill(np.nan)
        self._idle[buffer.size, buffer.dtype].append(buffer)

    def clear(self) -> None:
        """Let go of all that is idle."""
        self._idle.clear()
