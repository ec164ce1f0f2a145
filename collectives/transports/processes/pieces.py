"""Messages in pieces, by two copies, through memory that all processes share: where none may read others."""

import mmap
from collections import deque

import numpy as np

from collectives.transports.processes.kinds import EMPTIED, PIECE
from collectives.transports.processes.posted import ProcessPosted
from collectives.transports.processes.wire import Record, Wire

SLOT_BYTES = 256 << 10
"""Of a window's slot: it stays in the cache between the two copies."""

SLOTS = 4
"""Of a window: enough that its two ends copy at the same time."""


class Windows:
    """Memory of all processes, made before they are forked: slots into which a rank copies what it sends."""

    def __init__(self, world_size: int) -> None:
        # Without a name: it is gone with the last process. Pages that nobody touches take no memory.
        memory = np.frombuffer(mmap.mmap(-1, world_size * SLOTS * SLOT_BYTES), np.uint8)
        self.slots = memory.reshape(world_size, SLOTS, SLOT_BYTES)


class Pieces:
    """What leaves one rank through its own window, and what arrives through those of the others."""

    def __init__(self, wire: Wire, windows: Windows) -> None:
        self._wire, self._windows = wire, windows
        self._arriving: dict[tuple[int, int], ProcessPosted] = {}  # by sender and serial number
        self._leaving: deque[tuple[Record, ProcessPosted]] = deque()
        self._empty_slots = list(range(SLOTS))

    def expect(self, offer: Record, posted: ProcessPosted) -> None:
        """What was offered will arrive here."""
        self._arriving[offer.sender, offer.serial] = posted

    def send(self, request: Record, posted: ProcessPosted) -> None:
        """Send what was asked for, when its turn has come."""
        self._leaving.append((request, posted))
        self._fill_slots()

    def arrived(self, piece: Record) -> None:
        """Put it behind those that came before it."""
        posted = self._arriving[piece.sender, piece.serial]
        start, posted.moved = posted.moved, posted.moved + piece.size
        posted.data[start : posted.moved] = self._windows.slots[piece.sender, piece.place, : piece.size]
        self._wire.tell(piece.sender, EMPTIED, place=piece.place)
        if posted.moved == posted.data.size:
            self._arriving.pop((piece.sender, piece.serial)).end()

    def emptied(self, record: Record) -> None:
        """Use the slot again."""
        self._empty_slots.append(record.place)
        self._fill_slots()

    def _fill_slots(self) -> None:
        while self._leaving and self._empty_slots:
            request, posted = self._leaving[0]
            slot = self._empty_slots.pop()
            piece = posted.data[posted.moved : posted.moved + SLOT_BYTES]
            self._windows.slots[self._wire.rank, slot, : piece.size] = piece
            self._wire.tell(request.sender, PIECE, serial=request.serial, place=slot, size=piece.size)
            posted.moved += piece.size
            if posted.moved == posted.data.size:
                self._leaving.popleft()
                posted.end()
