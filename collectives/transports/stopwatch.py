"""Any transport, timed: how long this rank has spent inside it, posting, asking and pausing."""

import time

from collectives.ledger import Origin
from collectives.transports.base import Messages, Pending, Transport, WrappedTransport


class StopwatchTransport(WrappedTransport):
    """Wraps ``inner``; ``seconds`` adds up the time in it, of which most is waiting."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.seconds = 0.0

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> Pending:
        start = time.perf_counter()
        pending = self._inner.post(sends, recvs, tag, origin)
        self.seconds += time.perf_counter() - start
        return pending

    def landed(self, pending: Pending) -> bool:
        start = time.perf_counter()
        landed = self._inner.landed(pending)
        self.seconds += time.perf_counter() - start
        return landed

    def pause(self, waited: float) -> None:
        start = time.perf_counter()
        self._inner.pause(waited)
        self.seconds += time.perf_counter() - start

    def wrap(self, inner: Transport) -> "StopwatchTransport":
        return StopwatchTransport(inner)
