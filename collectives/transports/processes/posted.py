"""One end of a message between processes, and the kinds of records by which the two ends come together."""

import numpy as np

from collectives.transports.base import Array

SMALL, OFFER, TAKEN, REFUSED, ASK, PIECE, EMPTIED, ABORT = range(8)
"""Kinds of records: messages.py says who answers what. ABORT is the parent's: its sender has failed."""

NOTHING: Array = np.empty(0, np.uint8)


class Posted:
    """One end of a message. Ranks are those of its transport, for what is told."""

    __slots__ = ("data", "fault", "moved", "over", "peer", "rank", "sends")

    def __init__(self, sends: bool, rank: int, peer: int, data: Array) -> None:
        self.sends, self.rank, self.peer, self.data = sends, rank, peer, data
        self.moved = 0  # bytes, where it goes in pieces
        self.over = False
        self.fault: str | None = None

    def end(self) -> None:
        """Let go of the memory."""
        self.over, self.data = True, NOTHING
