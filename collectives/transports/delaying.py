"""Any transport, slowed down at random: what depends on timing goes wrong here and not on a cluster."""

import random
import time

from collectives.ledger import Origin
from collectives.transports.base import Messages, Pending, Transport, WrappedTransport

MOST_QUESTIONS = 5


class _Delayed:
    __slots__ = ("pending", "questions")

    def __init__(self, pending: Pending, questions: int) -> None:
        self.pending, self.questions = pending, questions


class DelayingTransport(WrappedTransport):
    """Wraps ``inner``; what has landed is kept back for a few questions, differently on each rank."""

    def __init__(self, inner: Transport, seed: int = 0) -> None:
        super().__init__(inner)
        self._seed = seed
        self._random = random.Random(seed * 1009 + inner.rank)

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> _Delayed:
        questions = self._random.randint(0, MOST_QUESTIONS)
        return _Delayed(self._inner.post(sends, recvs, tag, origin), questions)

    def landed(self, pending: _Delayed) -> bool:
        if pending.questions > 0:
            pending.questions -= 1
            return False
        return self._inner.landed(pending.pending)

    def missing(self, pending: _Delayed) -> tuple[list[int], list[int]]:
        return self._inner.missing(pending.pending)

    def pause(self, waited: float) -> None:
        """Only let other threads run: the news may be here already, and kept back."""
        time.sleep(0)

    def wrap(self, inner: Transport) -> "DelayingTransport":
        return DelayingTransport(inner, self._seed + 1)
