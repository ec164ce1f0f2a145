"""One rank's end of the wire, and of those that are split off it."""

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from collectives.ledger import Origin
from collectives.transports.base import (
    TIME_LIMIT,
    Array,
    Messages,
    Transport,
    TransportError,
)
from collectives.transports.in_flight import CLOSED, InFlight, Tags
from collectives.transports.posted import late_peers
from collectives.transports.processes.messages import ProcessMessages
from collectives.transports.processes.posted import ProcessPosted

MAX_TAG = 2**62

WORLD = 0
"""The context of the ranks that no split has made."""

_Pending = list[ProcessPosted]


class ProcessTransport(Transport):
    """One rank of `run_processes`."""

    def __init__(
        self,
        messages: ProcessMessages,
        members: tuple[int, ...],
        rank: int,
        context: int = WORLD,
        in_flight: InFlight | None = None,
    ) -> None:
        self._messages, self._context = messages, context
        self.members, self.rank, self.world_size = members, rank, len(members)
        self._exchanges = 0
        self.tags, self.in_flight = Tags(MAX_TAG), in_flight or InFlight()

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> _Pending:
        return self._post(sends, recvs, tag)

    def _post(self, sends: Messages, recvs: Messages, tag: int) -> _Pending:
        pending = []
        for peer, data in sends:  # first, for the others can read them while we take what they send
            posted = ProcessPosted(True, self.rank, peer, data)
            self._messages.send(posted, self.members[peer], self._context, tag)
            pending.append(posted)
        for peer, data in recvs:
            posted = ProcessPosted(False, self.rank, peer, data)
            self._messages.receive(posted, self.members[peer], self._context, tag)
            pending.append(posted)
        return pending

    def empty(self, num_bytes: int) -> Array:
        return self._messages.part.empty(num_bytes)

    def landed(self, pending: _Pending) -> bool:
        if all(posted.over for posted in pending):
            return True
        self._messages.advance()
        if self._messages.failed is not None:
            raise TransportError(f"rank {self._messages.failed} has failed")
        for posted in pending:
            if posted.fault is not None:
                raise TransportError(posted.fault)
        return all(posted.over for posted in pending)

    def missing(self, pending: _Pending) -> tuple[list[int], list[int]]:
        return late_peers(pending)

    def split(
        self, color: int | None, key: int, limit: float | None = TIME_LIMIT
    ) -> "ProcessTransport | None":
        wishes = self.exchange((color, key, self._messages.next_context), limit)
        colors = sorted({c for c, _, _ in wishes if c is not None})
        first = max(context for _, _, context in wishes)  # no two of our members have it in use
        self._messages.next_context = first + len(colors)
        if color is None:
            return None
        ranks = [rank for _, rank in sorted((k, rank) for rank, (c, k, _) in enumerate(wishes) if c == color)]
        members = tuple(self.members[rank] for rank in ranks)
        context = first + colors.index(color)
        return ProcessTransport(self._messages, members, ranks.index(self.rank), context, self.in_flight)

    def exchange(self, value: object, limit: float | None = TIME_LIMIT) -> list[Any]:
        self.tags.check_open()
        self._exchanges += 1
        mine = np.frombuffer(pickle.dumps(value), np.uint8)
        sizes = np.empty((self.world_size, 1), np.int64)
        sizes[self.rank] = mine.size
        self._tell_all(sizes[self.rank].view(np.uint8), list(sizes.view(np.uint8)), limit)
        values = [np.empty(size, np.uint8) for size in sizes[:, 0]]
        values[self.rank] = mine
        self._tell_all(mine, values, limit)
        return [pickle.loads(one.data) for one in values]

    def _tell_all(self, mine: Array, everything: Sequence[Array], limit: float | None) -> None:
        """Every rank's ``mine``, in the places of ``everything``."""
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        pending = self._post(
            [(peer, mine) for peer in others],
            [(peer, everything[peer]) for peer in others],
            -self._exchanges,  # a tag that no call takes
        )
        if not self.wait_until(lambda: self.landed(pending), limit):
            raise TransportError(f"{self.tell(self.rank)} waited {limit:g} s for the other ranks to exchange")

    def close(self, limit: float | None = TIME_LIMIT) -> None:
        super().close(limit)
        self._messages = CLOSED
