"""Ranks as threads of one process: quick to start, easy to debug, and as strict as MPI may be.

Nothing is buffered: a send is over only when its receive has been posted and the bytes have been copied, so
whatever relies on MPI's eager messages hangs here, in the tests, and not on somebody's cluster.
"""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from collectives.ledger import Origin
from collectives.transports.base import Array, Messages, Transport, TransportError

T = TypeVar("T")

Context = tuple[Any, ...]
"""Tells the messages of a world and of its splits apart."""


class _Posted:
    """One end of a message that waits for the other."""

    __slots__ = ("data", "done", "news", "peer", "rank")

    def __init__(self, rank: int, peer: int, data: Array, news: threading.Event) -> None:
        self.rank, self.peer, self.data, self.news = rank, peer, data, news
        self.done = False

    def finish(self) -> None:
        self.done = True
        self.news.set()


class _Pending(NamedTuple):
    sends: list[_Posted]
    recvs: list[_Posted]


class ThreadWorld:
    """What the ranks of one process share: who waits at which mailbox, and whether somebody has failed."""

    def __init__(self, world_size: int) -> None:
        if world_size < 1:
            raise ValueError(f"a world of {world_size} ranks: give 1 or more")
        self.world_size = world_size
        self.lock = threading.Lock()
        self.news = [threading.Event() for _ in range(world_size)]
        self.waiting: dict[tuple[Any, ...], deque[_Posted]] = {}
        self.exchanges: dict[Context, dict[int, Any]] = {}
        self.failure: str | None = None

    def transport(self, rank: int) -> "ThreadTransport":
        return ThreadTransport(self, (), tuple(range(self.world_size)), rank)

    def abort(self, failure: str) -> None:
        """End every wait of every rank with a TransportError that says why."""
        self.failure = self.failure or failure
        for news in self.news:
            news.set()

    def meet(self, mailbox: tuple[Any, ...], posted: _Posted, other: tuple[Any, ...]) -> _Posted | None:
        """The other end of a message, if it is here already; otherwise ``posted`` waits for it."""
        with self.lock:
            queue = self.waiting.get(other)
            if queue is None:
                self.waiting.setdefault(mailbox, deque()).append(posted)
                return None
            partner = queue.popleft()
            if not queue:
                del self.waiting[other]
            return partner


class ThreadTransport(Transport):
    """One rank of a ThreadWorld."""

    max_tag = 2**62

    def __init__(self, world: ThreadWorld, context: Context, members: tuple[int, ...], rank: int) -> None:
        self._world, self._context, self.members, self.rank = world, context, members, rank
        self.world_size = len(members)
        self._news = world.news[members[rank]]
        self._exchanges = 0

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> _Pending:
        return _Pending(
            [self._post(peer, data, tag, "send", "recv", (self.rank, peer)) for peer, data in sends],
            [self._post(peer, data, tag, "recv", "send", (peer, self.rank)) for peer, data in recvs],
        )

    def _post(
        self, peer: int, data: Array, tag: int, verb: str, answer: str, pair: tuple[int, int]
    ) -> _Posted:
        posted = _Posted(self.rank, peer, data, self._news)
        where = (self._context, *pair, tag)
        other = self._world.meet((verb, *where), posted, (answer, *where))
        if other is not None:
            send, recv = (posted, other) if verb == "send" else (other, posted)
            if send.data.size != recv.data.size:
                raise TransportError(
                    f"rank {send.rank} sends {send.data.size} bytes to rank {recv.rank}, "
                    f"which expects {recv.data.size}"
                )
            np.copyto(recv.data, send.data)
            send.finish()
            recv.finish()
        return posted

    def landed(self, pending: _Pending) -> bool:
        self._check_failure()
        return all(posted.done for posted in pending.sends) and all(posted.done for posted in pending.recvs)

    def missing(self, pending: _Pending) -> tuple[list[int], list[int]]:
        sends, recvs = (
            sorted({posted.peer for posted in part if not posted.done})
            for part in (pending.sends, pending.recvs)
        )
        return sends, recvs

    def split(self, color: int | None, key: int, limit: float | None = None) -> "ThreadTransport | None":
        wishes = self.exchange((color, key), limit)
        if color is None:
            return None
        chosen = sorted((k, rank) for rank, (c, k) in enumerate(wishes) if c == color)
        ranks = [rank for _, rank in chosen]
        context = (*self._context, self._exchanges, color)
        members = tuple(self.members[rank] for rank in ranks)
        return ThreadTransport(self._world, context, members, ranks.index(self.rank))

    def exchange(self, value: object, limit: float | None = None) -> list[Any]:
        self._exchanges += 1
        key = (*self._context, self._exchanges)
        start = time.monotonic()
        with self._world.lock:
            values = self._world.exchanges.setdefault(key, {})
            values[self.rank] = value
        for member in self.members:
            self._world.news[member].set()
        while len(values) < self.world_size:
            self._check_failure()
            if limit is not None and time.monotonic() - start > limit:
                raise TransportError(f"rank {self.rank} waited {limit:g} s for the other ranks to exchange")
            self.pause(0.0)
        self._world.exchanges.pop(key, None)  # every rank holds the values by now
        return [values[rank] for rank in range(self.world_size)]

    def pause(self, waited: float) -> None:
        # Set after a message is done, cleared before the caller looks again: no news is lost.
        self._news.wait(0.05)
        self._news.clear()

    def _check_failure(self) -> None:
        if self._world.failure is not None:
            raise TransportError(self._world.failure)


def run_threads(world_size: int, body: Callable[[Transport], T]) -> list[T]:
    """What ``body(transport)`` returned on each rank, all run at once as threads.

    The first rank that raises ends the waits of the others; its exception is raised here, with its rank in a
    note (from Python 3.11, which has notes).
    """
    world = ThreadWorld(world_size)
    results: dict[int, T] = {}
    failures: list[tuple[int, BaseException]] = []

    def run(rank: int) -> None:
        try:
            results[rank] = body(world.transport(rank))
        except BaseException as error:
            failures.append((rank, error))
            world.abort(f"rank {rank} raised {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        rank, failure = failures[0]
        if sys.version_info >= (3, 11):
            failure.add_note(f"on rank {rank} of {world_size}")
        raise failure
    return [results[rank] for rank in range(world_size)]
