"""Memory with a margin on either side that nobody may write to: a canary that dies tells of an overrun."""

import numpy as np

from collectives.testing.cases import Array

MARGIN = 64
"""Bytes: as aligned as any number needs."""

CANARY = 0xA5


class Guards:
    """Hands out memory, and knows afterwards whether a byte beside it was written."""

    def __init__(self) -> None:
        self._all: list[Array] = []

    def bytes(self, number: int) -> Array:
        """So many bytes between two margins."""
        guarded = np.full(number + 2 * MARGIN, CANARY, np.uint8)
        self._all.append(guarded)
        return guarded[MARGIN : MARGIN + number]

    def copy(self, array: Array) -> Array:
        """The same numbers between two margins."""
        copied = self.bytes(array.nbytes).view(array.dtype)
        copied[...] = array
        return copied

    def num_broken(self) -> int:
        """How many margin bytes were overwritten."""
        margins = (margin for one in self._all for margin in (one[:MARGIN], one[-MARGIN:]))
        return sum(int((margin != CANARY).sum()) for margin in margins)
