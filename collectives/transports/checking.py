"""Any transport, watched: no memory in flight is written, and none that is awaited is used twice or read.

Schedules name no memory, so a proof of the schedule says nothing of the engine's buffers: this does. It keeps
the address ranges in flight, and a fingerprint of every send, for as long as the transport owns them. What is
awaited is poisoned, so that numbers which were read too early cannot pass for those that were to come.
"""

import zlib
from typing import NamedTuple

from collectives.ledger import Origin
from collectives.transports.base import Array, Messages, Pending, Transport, WrappedTransport, address_of


class BufferHazardError(AssertionError):
    """Memory in flight was overwritten, or is posted again while a message still writes it."""


POISON = 0xFF
"""Not a number in every float, -1 in every integer."""


class _Message(NamedTuple):
    """What a report names; put into words only when there is one, for it is made for every message."""

    origin: Origin
    direction: str
    peer: int

    def __str__(self) -> str:
        call, step, chunk = self.origin
        return f"{call}, step {step}, chunk {chunk}, {self.direction} rank {self.peer}"


class _Range(NamedTuple):
    start: int
    stop: int
    writes: bool
    what: _Message


class _Checked(NamedTuple):
    pending: Pending
    ranges: list[_Range]
    sends: list[tuple[Array, int, _Message]]


class CheckingTransport(WrappedTransport):
    """Wraps ``inner``, poisons what is awaited, and raises BufferHazardError, with both messages named."""

    def __init__(self, inner: Transport, in_use: list[_Range] | None = None) -> None:
        super().__init__(inner)
        self.in_use: list[_Range] = [] if in_use is None else in_use

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> _Checked:
        ranges = [self._range(data, True, _Message(origin, "from", peer)) for peer, data in recvs]
        ranges += [self._range(data, False, _Message(origin, "to", peer)) for peer, data in sends]
        fingerprints = [(data, zlib.crc32(data.data), _Message(origin, "to", peer)) for peer, data in sends]
        for _, data in recvs:
            data.fill(POISON)
        return _Checked(self._inner.post(sends, recvs, tag, origin), ranges, fingerprints)

    def _range(self, data: Array, writes: bool, what: _Message) -> _Range:
        start = address_of(data)
        new = _Range(start, start + data.nbytes, writes, what)
        for old in self.in_use:
            if new.start < old.stop and old.start < new.stop and (new.writes or old.writes):
                raise BufferHazardError(
                    f"rank {self.rank}: {what} shares memory with {old.what}, still in flight"
                )
        self.in_use.append(new)
        return new

    def landed(self, pending: _Checked) -> bool:
        if not self._inner.landed(pending.pending):
            return False
        for data, fingerprint, what in pending.sends:
            if zlib.crc32(data.data) != fingerprint:
                raise BufferHazardError(f"rank {self.rank}: {what} was overwritten while it was in flight")
        for one in pending.ranges:
            self.in_use.remove(one)
        pending.ranges.clear()
        pending.sends.clear()
        return True

    def missing(self, pending: _Checked) -> tuple[list[int], list[int]]:
        return self._inner.missing(pending.pending)

    def wrap(self, inner: Transport) -> "CheckingTransport":
        return CheckingTransport(inner, self.in_use)
