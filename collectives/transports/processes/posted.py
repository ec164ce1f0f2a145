"""One end of a message between processes: it may go in pieces, and its fault be found by the other end."""

from collectives.transports.base import Array
from collectives.transports.posted import Posted


class ProcessPosted(Posted):
    """A posted end: how much of it has ``moved``, in bytes, and its ``fault``, for its own rank to raise."""

    __slots__ = ("fault", "moved")

    def __init__(self, sends: bool, rank: int, peer: int, data: Array) -> None:
        super().__init__(sends, rank, peer, data)
        self.moved = 0
        self.fault: str | None = None
