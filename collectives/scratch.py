"""Scratch memory that Works use one after the other: new pages cost faults, used ones do not."""

from typing import Any

import numpy as np
import numpy.typing as npt


class ScratchPool:
    """Lends byte buffers, and keeps what comes back for the next Work."""

    def __init__(self) -> None:
        self._idle: list[npt.NDArray[np.uint8]] = []

    def take(self, num_bytes: int) -> npt.NDArray[Any]:
        """A buffer of at least so many bytes."""
        for place, buffer in enumerate(self._idle):
            if buffer.size >= num_bytes:
                return self._idle.pop(place)
        if self._idle:
            self._idle.pop()  # too small for what is called now: grow rather than hoard
        return np.empty(num_bytes, np.uint8)

    def give_back(self, buffer: npt.NDArray[Any]) -> None:
        """Nothing of it is in flight any more."""
        self._idle.append(buffer)

    def clear(self) -> None:
        """Let go of all that is idle."""
        self._idle.clear()
