"""Records of a few numbers from process to process, through one pipe a rank.

A pipe and no queue in shared memory: the kernel keeps records whole and in order on every processor, and
takes everything away with the last process. Ranks that wait look into it now and then, and do not sleep on
it: a writer that wakes its reader draws it to its own core, where the two take turns.
"""

import os
import select
import struct
from collections import deque
from typing import NamedTuple

from collectives.transports.base import Array

_NUMBERS = struct.Struct("=4i5q")

_CARRIED = 3
"""Where they say how many bytes come behind them."""

MOST_CARRIED = select.PIPE_BUF - _NUMBERS.size
"""Bytes of a message that a record has room for: the kernel writes it whole, or not at all."""

_MANY = 1 << 16
"""Bytes to read at once, about what a pipe holds."""


class Record(NamedTuple):
    """What a process tells another: the kind says which of the numbers mean something."""

    kind: int
    sender: int  # as everywhere here: a rank of the whole world
    pid: int
    carried: int  # bytes of ``data``
    context: int
    tag: int
    serial: int
    place: int
    size: int
    data: bytes


class Pipes:
    """A pipe for each rank, made before the ranks are forked: all may write into all of them."""

    def __init__(self, world_size: int) -> None:
        self.ends: list[tuple[int, int]] = []
        try:
            for _ in range(world_size):
                self.ends.append(os.pipe())
                for end in self.ends[-1]:
                    os.set_blocking(end, False)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        for end in (end for both in self.ends for end in both):
            os.close(end)
        self.ends = []


class Wire:
    """One rank's end: what it tells the others, and what they tell it."""

    def __init__(self, pipes: Pipes, rank: int) -> None:
        self.rank, self._pid = rank, os.getpid()
        self._own = pipes.ends[rank][0]
        self._others = [writing for _, writing in pipes.ends]
        self._unsent: dict[int, deque[bytes]] = {}  # where a pipe is full
        self._half_heard = b""
        self._news = select.poll()
        self._news.register(self._own, select.POLLIN)

    def tell(
        self, peer: int, kind: int, *, context: int = 0, tag: int = 0, serial: int = 0, place: int = 0,
        size: int = 0,
    ) -> None:  # fmt: skip
        """Send a Record, as soon as there is room; never waits."""
        record = _NUMBERS.pack(kind, self.rank, self._pid, 0, context, tag, serial, place, size)
        if peer in self._unsent:
            self._unsent[peer].append(record)
        elif not self._write(peer, record):
            self._unsent[peer] = deque((record,))

    def carry(self, peer: int, kind: int, data: Array, *, context: int, tag: int) -> bool:
        """Whether a Record with ``data``, at most MOST_CARRIED, was sent: at once, or not at all."""
        if peer in self._unsent:
            return False
        size = data.size
        numbers = _NUMBERS.pack(kind, self.rank, self._pid, size, context, tag, 0, 0, size)
        return self._write(peer, numbers + data.tobytes())

    def hear(self) -> list[Record]:
        """What has come, in the order sent; and send what was held back."""
        if self._unsent:
            self._send_on()
        if not self._news.poll(0):
            return []
        heard, start, records = self._half_heard + os.read(self._own, _MANY), 0, []
        while len(heard) - start >= _NUMBERS.size:
            middle = start + _NUMBERS.size
            numbers = _NUMBERS.unpack_from(heard, start)
            end = middle + numbers[_CARRIED]
            if end > len(heard):
                break
            records.append(Record._make((*numbers, heard[middle:end])))
            start = end
        self._half_heard = heard[start:]
        return records

    @property
    def all_sent(self) -> bool:
        """Whether nothing is held back."""
        if self._unsent:
            self._send_on()
        return not self._unsent

    def _send_on(self) -> None:
        for peer, waiting in tuple(self._unsent.items()):
            while waiting and self._write(peer, waiting[0]):
                waiting.popleft()
            if not waiting:
                del self._unsent[peer]

    def _write(self, peer: int, data: bytes) -> bool:
        try:
            os.write(self._others[peer], data)
        except BlockingIOError:
            return False
        return True
