"""Ranks as threads of one process: quick to start, easy to debug, and as strict as MPI may be.

Nothing is buffered: a send is over only when its receive has been posted and the bytes have been copied, so
whatever relies on MPI's eager messages hangs here, in the tests, and not on somebody's cluster.
"""

import contextlib
import pickle
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np

from collectives.ledger import Origin
from collectives.transports.base import TIME_LIMIT, Array, Messages, Transport, TransportError
from collectives.transports.failures import OnFailure, describe_failure, note_rank, tell_nobody
from collectives.transports.in_flight import CLOSED, InFlight, Tags
from collectives.transports.posted import Posted, late_peers, wrong_size

T = TypeVar("T")

MAX_TAG = 2**62

Context = tuple[Any, ...]
"""Tells the messages of a world and of its splits apart."""

News = SimpleQueue[None]
"""Wakes a rank that pauses: cheaper than an Event, since a step has several and each wakes somebody."""

Mailbox = tuple[Context, int, int, int]
"""Context, sender, receiver, tag: where the two ends of a message meet, first come, first served."""


class _ThreadPosted(Posted):
    """A posted end, and what wakes the rank that it belongs to."""

    __slots__ = ("news",)

    def __init__(self, sends: bool, rank: int, peer: int, data: Array, news: News) -> None:
        super().__init__(sends, rank, peer, data)
        self.news = news


_Pending = list[_ThreadPosted]


class ThreadWorld:
    """What the ranks of one process share: who waits at which mailbox, and whether somebody has failed."""

    def __init__(self, world_size: int) -> None:
        if world_size < 1:
            raise ValueError(f"a world of {world_size} ranks: give 1 or more")
        self.world_size = world_size
        self.lock = threading.Lock()
        self.news: list[News] = [SimpleQueue() for _ in range(world_size)]
        self.waiting: dict[Mailbox, deque[_ThreadPosted]] = {}  # all of a mailbox are sends, or all receives
        self.exchanges: dict[Context, dict[int, bytes]] = {}
        self.failure: str | None = None

    def transport(self, rank: int) -> "ThreadTransport":
        return ThreadTransport(self, (), tuple(range(self.world_size)), rank)

    def abort(self, failure: str) -> None:
        """End every wait of every rank with a TransportError that says why."""
        self.failure = self.failure or failure
        for news in self.news:
            news.put(None)

    def meet(self, mailbox: Mailbox, posted: _ThreadPosted) -> _ThreadPosted | None:
        """The other end of a message, if it is here already; otherwise ``posted`` waits for it."""
        with self.lock:
            queue = self.waiting.get(mailbox)
            if queue is None:
                self.waiting[mailbox] = deque((posted,))
                return None
            if queue[0].sends is posted.sends:
                queue.append(posted)
                return None
            other = queue.popleft()
            if not queue:
                del self.waiting[mailbox]
            return other


class ThreadTransport(Transport):
    """One rank of a ThreadWorld."""

    def __init__(
        self,
        world: ThreadWorld,
        context: Context,
        members: tuple[int, ...],
        rank: int,
        in_flight: InFlight | None = None,
    ) -> None:
        self._world, self._context, self.members, self.rank = world, context, members, rank
        self.world_size = len(members)
        self._news = world.news[members[rank]]
        self._exchanges = 0
        self.tags, self.in_flight = Tags(MAX_TAG), in_flight or InFlight()

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> _Pending:
        pending = []
        for peer, data in sends:
            posted = _ThreadPosted(True, self.rank, peer, data, self._news)
            self._meet(posted, (self._context, self.rank, peer, tag))
            pending.append(posted)
        for peer, data in recvs:
            posted = _ThreadPosted(False, self.rank, peer, data, self._news)
            self._meet(posted, (self._context, peer, self.rank, tag))
            pending.append(posted)
        return pending

    def _meet(self, posted: _ThreadPosted, mailbox: Mailbox) -> None:
        other = self._world.meet(mailbox, posted)
        if other is None:
            return
        send, recv = (posted, other) if posted.sends else (other, posted)
        if send.data.size != recv.data.size:
            raise TransportError(wrong_size(send.rank, send.data.size, recv.rank, recv.data.size))
        np.copyto(recv.data, send.data)
        posted.end()
        other.end()  # or this thread's frame would hold the other rank's memory
        other.news.put(None)  # this rank is awake

    def landed(self, pending: _Pending) -> bool:
        self._check_failure()
        return all(posted.over for posted in pending)

    def missing(self, pending: _Pending) -> tuple[list[int], list[int]]:
        return late_peers(pending)

    def split(
        self, color: int | None, key: int, limit: float | None = TIME_LIMIT
    ) -> "ThreadTransport | None":
        wishes = self.exchange((color, key), limit)
        if color is None:
            return None
        chosen = sorted((k, rank) for rank, (c, k) in enumerate(wishes) if c == color)
        ranks = [rank for _, rank in chosen]
        context = (*self._context, self._exchanges, color)
        members = tuple(self.members[rank] for rank in ranks)
        return ThreadTransport(self._world, context, members, ranks.index(self.rank), self.in_flight)

    def exchange(self, value: object, limit: float | None = TIME_LIMIT) -> list[Any]:
        self._exchanges += 1
        key = (*self._context, self._exchanges)
        with self._world.lock:
            values = self._world.exchanges.setdefault(key, {})
            values[self.rank] = pickle.dumps(value)  # each rank gets a copy of its own, as over MPI
        for member in self.members:
            self._world.news[member].put(None)

        def complete() -> bool:
            self._check_failure()
            return len(values) == self.world_size

        if not self.wait_until(complete, limit):
            raise TransportError(f"{self.tell(self.rank)} waited {limit:g} s for the other ranks to exchange")
        self._world.exchanges.pop(key, None)  # every rank holds the values by now
        return [pickle.loads(values[rank]) for rank in range(self.world_size)]

    def close(self, limit: float | None = TIME_LIMIT) -> None:
        super().close(limit)
        self._world = CLOSED

    def pause(self, waited: float) -> None:
        # News is put after a message is done, and taken before the caller looks again: none is lost.
        with contextlib.suppress(Empty):
            self._news.get(timeout=0.05)
        while not self._news.empty():
            self._news.get()

    def _check_failure(self) -> None:
        if self._world.failure is not None:
            raise TransportError(self._world.failure)


def run_threads(
    world_size: int, body: Callable[[Transport], T], *, on_failure: OnFailure = tell_nobody
) -> list[T]:
    """What ``body(transport)`` returned on each rank, all run at once as threads.

    The first rank that raises ends the waits of the others; its exception is raised here, with its rank in a
    note (from Python 3.11, which has notes), after ``on_failure`` was called with it.
    """
    world = ThreadWorld(world_size)
    results: dict[int, T] = {}
    failures: list[tuple[int, BaseException]] = []

    def run(rank: int) -> None:
        try:
            results[rank] = body(world.transport(rank))
        except BaseException as error:
            failures.append((rank, error))
            world.abort(describe_failure(rank, error))

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        rank, failure = failures[0]
        on_failure(describe_failure(rank, failure), failure)
        raise note_rank(failure, rank, world_size)
    return [results[rank] for rank in range(world_size)]
