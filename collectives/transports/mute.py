"""Any transport, silenced: nothing is sent, everything has landed. What is left is the rest of the time."""

from collectives.ledger import Origin
from collectives.transports.base import Messages, Pending, Transport, WrappedTransport


class MuteTransport(WrappedTransport):
    """Wraps ``inner`` and moves no message: results are nonsense, times are those without communication.

    What would be received is zero the first time, so that arithmetic on it stays finite. Ranks still meet in
    ``exchange`` and ``split``.
    """

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._seen: set[int] = set()

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> None:
        for _, data in recvs:
            address = data.__array_interface__["data"][0]
            if address not in self._seen:
                self._seen.add(address)
                data.fill(0)

    def landed(self, pending: Pending) -> bool:
        return True

    def missing(self, pending: Pending) -> tuple[list[int], list[int]]:
        return [], []

    def wrap(self, inner: Transport) -> "MuteTransport":
        return MuteTransport(inner)
