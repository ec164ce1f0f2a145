"""Any transport, counted: each buffer is recorded at the moment it is handed to the real one."""

import time
from typing import Any, NamedTuple

from collectives.ledger import Entry, Ledger, Origin
from collectives.transports.base import TIME_LIMIT, Messages, Pending, Transport, WrappedTransport


class _Metered(NamedTuple):
    pending: Pending
    entry: Entry


class MeteredTransport(WrappedTransport):
    """Wraps ``inner`` and writes into ``ledger``; its splits write into the same one, in world ranks.

    Times are of the wall clock: one for all ranks of a host, and for several as good as their clocks agree.
    """

    def __init__(self, inner: Transport, ledger: Ledger) -> None:
        super().__init__(inner)
        self.ledger = ledger

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> _Metered:
        world = self.members
        sent = [(world[peer], data.nbytes) for peer, data in sends]
        received = [(world[peer], data.nbytes) for peer, data in recvs]
        entry = Entry(origin, sent, received, time.time())
        self.ledger.entries.append(entry)
        return _Metered(self._inner.post(sends, recvs, tag, origin), entry)

    def landed(self, pending: _Metered) -> bool:
        if not self._inner.landed(pending.pending):
            return False
        if pending.entry.end is None:
            pending.entry.end = time.time()
        return True

    def missing(self, pending: _Metered) -> tuple[list[int], list[int]]:
        return self._inner.missing(pending.pending)

    def exchange(self, value: object, limit: float | None = TIME_LIMIT) -> list[Any]:
        self.ledger.exchanges += 1
        return super().exchange(value, limit)

    def wrap(self, inner: Transport) -> "MeteredTransport":
        return MeteredTransport(inner, self.ledger)
