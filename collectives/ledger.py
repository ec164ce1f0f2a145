"""What was sent to whom, and why: one entry for each step's messages, on the rank that hands them over."""

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Literal, NamedTuple

Kind = Literal["training", "control", "audit"]
"""Training moves the model's numbers; control keeps ranks in step (checks, norms, versions); audit proves."""


class Label(NamedTuple):
    """Why a collective was called, as its caller says: set on the Communicator, carried to every message.

    ``axis``: which axis of a grid of ranks its communicator runs along. The Communicator fills it in.
    """

    kind: Kind = "training"
    iteration: int | None = None
    phase: str | None = None
    layer: int | None = None
    axis: str | None = None


class LabelHolder:
    """The label of a rank: one for a Communicator and all that were split off it."""

    def __init__(self) -> None:
        self.label = Label()


SEND = "send"
"""The collective of a message between two ranks, which is none."""


class Call(NamedTuple):
    """One collective call. ``number`` counts the calls of its communicator, alike on all ranks.

    ``communicator`` is the way to it: the number and the color of each split, none for the world's; and, for
    a message between two ranks, the number of its `PointToPoint` and the lane.
    """

    number: int
    collective: str
    algorithm: str
    label: Label
    communicator: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.algorithm} {self.collective} #{self.number}"


class Origin(NamedTuple):
    """Where a message comes from: the call, the step of its schedule, the chunk whose lane it is in."""

    call: Call
    step: int
    chunk: int


class Entry:
    """The messages of one step in one lane: handed over at ``start``, all landed at ``end`` (seconds)."""

    __slots__ = ("end", "origin", "recvs", "sends", "start")

    def __init__(
        self,
        origin: Origin,
        sends: list[tuple[int, int]],
        recvs: list[tuple[int, int]],
        start: float,
    ) -> None:
        self.origin = origin
        self.sends = sends  # (peer's world rank, bytes)
        self.recvs = recvs
        self.start = start
        self.end: float | None = None


class Ledger:
    """What one rank has handed to its transport, in order: all of it, or what was not yet drained."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.exchanges = 0  # values that went past the ledger: set-up and reports, never a model's numbers

    def drain(self) -> list[Entry]:
        """Take out the entries whose messages have landed; those in flight stay, for they have no end yet.

        A trainer that sums them up after each iteration holds one iteration's worth, however long it runs.
        """
        landed = [entry for entry in self.entries if entry.end is not None]
        self.entries[:] = [entry for entry in self.entries if entry.end is None]
        return landed

    def sent(self, kind: Kind | None = None) -> int:
        """Bytes that this rank has sent, of one kind or of all."""
        return sum(
            num_bytes
            for entry in self.entries
            if kind in (None, entry.origin.call.label.kind)
            for _, num_bytes in entry.sends
        )


class Message(NamedTuple):
    """A message as both its ends saw it: handed over by the sender, landed at the receiver."""

    origin: Origin
    sender: int
    receiver: int
    num_bytes: int
    start: float
    end: float


class LedgerError(Exception):
    """The two ends of a message were not counted alike."""


def pair_messages(entries_by_rank: Sequence[Sequence[Entry]]) -> list[Message]:
    """Every message of a run, in the order handed over, from the ledgers of all ranks.

    Each send must have been counted as a receive of as many bytes at its other end: otherwise LedgerError.
    A message between two ranks may have another label at each end; it is told with the sender's.
    """
    arrivals: dict[tuple[int, int, Origin], deque[tuple[int, float]]] = defaultdict(deque)
    for receiver, entries in enumerate(entries_by_rank):
        for entry in entries:
            for sender, num_bytes in entry.recvs:
                arrivals[sender, receiver, _shared(entry.origin)].append(
                    (num_bytes, entry.end or entry.start)
                )
    messages = []
    for sender, entries in enumerate(entries_by_rank):
        for entry in entries:
            for receiver, num_bytes in entry.sends:
                arrived = arrivals[sender, receiver, _shared(entry.origin)]
                received, end = arrived.popleft() if arrived else (0, 0.0)
                if received != num_bytes:
                    raise LedgerError(
                        f"{entry.origin.call}, step {entry.origin.step}: rank {sender} counted {num_bytes} "
                        f"bytes sent to rank {receiver}, which counted {received} received"
                    )
                messages.append(Message(entry.origin, sender, receiver, num_bytes, entry.start, end))
    for (sender, receiver, origin), arrived in arrivals.items():
        if arrived:
            raise LedgerError(
                f"{origin.call}, step {origin.step}: rank {receiver} counted {arrived[0][0]} bytes received "
                f"from rank {sender}, which counted none sent"
            )
    return sorted(messages, key=lambda message: message.start)


def _shared(origin: Origin) -> Origin:
    """What both ends of a message know. In a send they may be in different phases: of its label, the kind."""
    call = origin.call
    if call.collective != SEND:
        return origin
    return origin._replace(call=call._replace(label=Label(call.label.kind, axis=call.label.axis)))
