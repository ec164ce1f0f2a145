"""One end of a message that waits for the other end, on the transports that bring the two together."""

from collections.abc import Iterable

import numpy as np

from collectives.transports.base import Array

NOTHING: Array = np.empty(0, np.uint8)


class Posted:
    """One end of a message. Ranks are those of its transport, for what is told."""

    __slots__ = ("data", "over", "peer", "rank", "sends")

    def __init__(self, sends: bool, rank: int, peer: int, data: Array) -> None:
        self.sends, self.rank, self.peer, self.data = sends, rank, peer, data
        self.over = False

    def end(self) -> None:
        """Let go of the memory, and then say so: whoever waits for it may be another thread."""
        self.data, self.over = NOTHING, True


def late_peers(pending: Iterable[Posted]) -> tuple[list[int], list[int]]:
    """The peers whose end is missing: `Transport.missing`."""
    late = [posted for posted in pending if not posted.over]
    sends, recvs = ({posted.peer for posted in late if posted.sends is sends} for sends in (True, False))
    return sorted(sends), sorted(recvs)


def wrong_size(sender: int, size: int, receiver: int, expected: int) -> str:
    """What is wrong with two ends of different sizes, in bytes."""
    return f"rank {sender} sends {size} bytes to rank {receiver}, which expects {expected}"
