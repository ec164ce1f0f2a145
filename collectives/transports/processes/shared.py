"""Memory of one process that all the others see at the same address, and read without the kernel's help.

One mapping without a name, made before the ranks are forked, with a part for each of them. Pages that nobody
touches take no memory.
"""

import mmap
from collections import deque
from contextlib import suppress
from weakref import finalize

import numpy as np

from collectives.transports.base import Array, address_of

PART_BYTES = 1 << 30
"""Of a rank: as much as its calls will work in at a time. What is beyond lies in memory of its own."""

ALIGNMENT = 64

_NO_RESERVE = 0x4000 if not hasattr(mmap, "MAP_NORESERVE") else mmap.MAP_NORESERVE


class SharedMemory:
    """All parts. Where the machine will not have it there are none, and everything lies in its own memory."""

    def __init__(self, world_size: int, part_bytes: int = PART_BYTES) -> None:
        self.part_bytes = part_bytes
        self._view = memoryview(b"")
        with suppress(OSError):
            flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NO_RESERVE
            self._view = memoryview(mmap.mmap(-1, world_size * part_bytes, flags=flags))
        self._start = address_of(np.frombuffer(self._view, np.uint8)) if self._view else 0

    def part(self, rank: int) -> "Part":
        """What a rank may give away."""
        start = rank * self.part_bytes
        return Part(self._view[start : start + self.part_bytes])

    def at(self, address: int, size: int) -> Array | None:
        """The bytes at that address, if they lie in here, whose ever part that is."""
        start = address - self._start
        if not 0 <= start <= len(self._view) - size:
            return None
        return np.frombuffer(self._view[start : start + size], np.uint8)


class Part:
    """A rank's part, given away piece by piece; a piece comes back when nobody holds its array any more."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._free = [(0, len(view))]
        self._returned: deque[tuple[int, int]] = deque()

    def empty(self, num_bytes: int) -> Array:
        """So many bytes of any contents: in here, or where there is no room in memory of their own."""
        self._take_back()
        if not num_bytes:
            return np.empty(0, np.uint8)
        size = -(-num_bytes // ALIGNMENT) * ALIGNMENT
        for place, (start, stop) in enumerate(self._free):
            if stop - start >= size:
                self._free[place] = start + size, stop
                # An array over a view, and no slice of a larger one: so its own slices keep it alive.
                array = np.frombuffer(self._view[start : start + num_bytes], np.uint8)
                finalize(array, self._returned.append, (start, start + size)).atexit = False
                return array
        return np.empty(num_bytes, np.uint8)

    def _take_back(self) -> None:
        """Join what has come back to what is free: not at once, for an array may end in the middle of all."""
        if not self._returned:
            return
        pieces = list(self._free)
        while self._returned:
            pieces.append(self._returned.popleft())
        self._free = []
        for start, stop in sorted(pieces):
            if self._free and self._free[-1][1] == start:
                start = self._free.pop()[0]
            self._free.append((start, stop))
