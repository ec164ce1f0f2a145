"""The messages of one process, until both of their ends are here and their bytes are where they belong.

Small messages go with their own record, and their sends are over at once. Of others the sender offers its
memory. The receiver answers when its receive has been posted: it takes the bytes from where they lie, if that
is memory which all processes share, or reads them in the sender's, and says that they are taken; or, where it
may not read there, asks for them in pieces.
"""

import time
from collections import deque
from itertools import count
from typing import TypeVar

import numpy as np

from collectives.transports.base import SLEEP_SECONDS, TIME_LIMIT, Array, TransportError, address_of
from collectives.transports.posted import wrong_size
from collectives.transports.processes.kinds import (
    ABORT,
    ASK,
    EMPTIED,
    OFFER,
    PIECE,
    REFUSED,
    SMALL,
    TAKEN,
)
from collectives.transports.processes.memory import MemoryReader
from collectives.transports.processes.pieces import Pieces, Windows
from collectives.transports.processes.posted import ProcessPosted
from collectives.transports.processes.shared import SharedMemory
from collectives.transports.processes.wire import MOST_CARRIED, Record, Wire

T = TypeVar("T")

Mailbox = tuple[int, int, int]
"""Context, sender, tag: where offers and receives meet, first come, first served."""


class ProcessMessages:
    """What one process sends and receives, for its transport and for all that are split off it."""

    def __init__(self, wire: Wire, windows: Windows, shared: SharedMemory, *, may_read: bool) -> None:
        self.wire = wire
        self.part = shared.part(wire.rank)
        self._shared = shared
        self.failed: int | None = None  # the rank that has ended the job
        self.next_context = 1
        self._reader = MemoryReader()
        self._reader.allowed &= may_read
        self._serials = count()
        self._offers: dict[Mailbox, deque[Record]] = {}
        self._receives: dict[Mailbox, deque[ProcessPosted]] = {}
        self._sends: dict[int, ProcessPosted] = {}  # by their serial numbers
        self._pieces = Pieces(wire, windows)
        self._act = {
            SMALL: self._offered, OFFER: self._offered, TAKEN: self._taken, REFUSED: self._refused,
            ASK: self._asked, PIECE: self._pieces.arrived, EMPTIED: self._pieces.emptied,
            ABORT: self._aborted,
        }  # fmt: skip

    def send(self, posted: ProcessPosted, receiver: int, context: int, tag: int) -> None:
        data = posted.data
        small = data.size <= MOST_CARRIED
        if small and self.wire.carry(receiver, SMALL, data, context=context, tag=tag):
            posted.end()
            return
        serial = next(self._serials)
        self._sends[serial] = posted
        self.wire.tell(
            receiver, OFFER, context=context, tag=tag, serial=serial, place=address_of(data), size=data.size
        )

    def receive(self, posted: ProcessPosted, sender: int, context: int, tag: int) -> None:
        mailbox = context, sender, tag
        if mailbox in self._offers:
            self._take(_first(self._offers, mailbox), posted)
        else:
            self._receives.setdefault(mailbox, deque()).append(posted)

    def advance(self) -> None:
        """Do what the others have told us to. Never waits."""
        for record in self.wire.hear():
            self._act[record.kind](record)

    def send_all(self, limit: float = TIME_LIMIT) -> None:
        """Tell what a full pipe has held back: others may wait for it when this rank has no wait left."""
        end = time.monotonic() + limit
        while not self.wire.all_sent and self.failed is None:
            if time.monotonic() > end:
                raise TransportError(f"after {limit:g} s other ranks have not heard what they were told")
            time.sleep(SLEEP_SECONDS)
            self.advance()

    def _offered(self, offer: Record) -> None:
        mailbox = offer.context, offer.sender, offer.tag
        if mailbox in self._receives:
            self._take(offer, _first(self._receives, mailbox))
        else:
            self._offers.setdefault(mailbox, deque()).append(offer)

    def _take(self, offer: Record, posted: ProcessPosted) -> None:
        if offer.size != posted.data.size:
            posted.fault = wrong_size(posted.peer, offer.size, posted.rank, posted.data.size)
            if offer.kind == OFFER:
                self._answer(offer, REFUSED, posted.data.size)
        elif offer.kind == SMALL:
            posted.data[:] = np.frombuffer(offer.data, np.uint8)
            posted.end()
        else:
            self._take_large(offer, posted)

    def _take_large(self, offer: Record, posted: ProcessPosted) -> None:
        try:
            is_here = self._read(offer, posted.data)
        except ProcessLookupError:
            return  # the sender is dead, which our parent sees as well, and ends this wait by its name
        if is_here:
            posted.end()
            self._answer(offer, TAKEN)
        else:
            self._pieces.expect(offer, posted)
            self._answer(offer, ASK)

    def _read(self, offer: Record, into: Array) -> bool:
        if not into.size:
            return True
        if (shared := self._shared.at(offer.place, offer.size)) is not None:
            np.copyto(into, shared)
            return True
        return self._reader.allowed and self._reader.read(offer.pid, offer.place, into)

    def _answer(self, offer: Record, kind: int, size: int = 0) -> None:
        self.wire.tell(offer.sender, kind, serial=offer.serial, size=size)

    def _taken(self, answer: Record) -> None:
        self._sends.pop(answer.serial).end()

    def _refused(self, answer: Record) -> None:
        posted = self._sends.pop(answer.serial)
        posted.fault = wrong_size(posted.rank, posted.data.size, posted.peer, answer.size)

    def _asked(self, answer: Record) -> None:
        self._pieces.send(answer, self._sends.pop(answer.serial))

    def _aborted(self, record: Record) -> None:
        self.failed = record.sender


def _first(waiting: dict[Mailbox, deque[T]], mailbox: Mailbox) -> T:
    """Take out what has waited longest."""
    queue = waiting[mailbox]
    first = queue.popleft()
    if not queue:
        del waiting[mailbox]
    return first
