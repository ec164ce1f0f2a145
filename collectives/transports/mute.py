"""Any transport, silenced: nothing is sent, everything has landed. What is left is the rest of the time."""

from typing import get_args

from collectives.ledger import Kind, Origin
from collectives.transports.base import Messages, Pending, Transport, WrappedTransport, address_of

_SILENCED = object()
"""What stands for messages that were never posted."""


class MuteTransport(WrappedTransport):
    """Wraps ``inner`` and moves no message of these ``kinds``: times are those without communication.

    The results of what is silenced are nonsense. What would be received is zero the first time, so that
    arithmetic on it stays finite. Other kinds of messages are real, and ranks still meet in ``exchange`` and
    ``split``.
    """

    def __init__(self, inner: Transport, kinds: tuple[Kind, ...] = get_args(Kind)) -> None:
        super().__init__(inner)
        self.kinds = kinds
        self._seen: set[int] = set()

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> Pending:
        if origin.call.label.kind not in self.kinds:
            return super().post(sends, recvs, tag, origin)
        for _, data in recvs:
            address = address_of(data)
            if address not in self._seen:
                self._seen.add(address)
                data.fill(0)
        return _SILENCED

    def landed(self, pending: Pending) -> bool:
        return pending is _SILENCED or super().landed(pending)

    def missing(self, pending: Pending) -> tuple[list[int], list[int]]:
        return ([], []) if pending is _SILENCED else super().missing(pending)

    def wrap(self, inner: Transport) -> "MuteTransport":
        return MuteTransport(inner, self.kinds)
