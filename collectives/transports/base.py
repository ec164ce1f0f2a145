"""The transport's interface: post a step's messages, ask whether they have landed."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from collectives.ledger import Origin
from collectives.transports.in_flight import InFlight, Tags

Array = npt.NDArray[Any]
Messages = Sequence[tuple[int, Array]]
"""(peer, bytes): flat uint8 views of the caller's memory. Nothing is copied on the way in."""

Pending = Any
"""What ``post`` returns and only its own transport understands."""

_yield_core: Callable[[], object] = getattr(os, "sched_yield", lambda: time.sleep(0))  # where there is none

TIME_LIMIT = 60.0
"""Seconds without any news after which a wait ends."""

EAGER_SECONDS = 5e-6
YIELD_SECONDS = 0.002
SLEEP_SECONDS = 0.0005


def address_of(data: Array) -> int:
    """Where its first byte lies."""
    return int(data.__array_interface__["data"][0])


class TransportError(RuntimeError):
    """The transport cannot go on: another rank has failed, or the world is not what it should be."""


class Transport(ABC):
    """One rank's end of the wire.

    Messages between two ranks with the same tag arrive in the order posted. The memory of a posted message
    belongs to the transport until it has landed: a send may be read, and a receive written, at any moment.
    """

    rank: int
    world_size: int
    members: tuple[int, ...]
    """The world rank of each rank here: more than ``range(world_size)`` only after ``split``."""
    tags: Tags
    in_flight: InFlight

    @abstractmethod
    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> Pending:
        """Start these messages together. ``origin`` is for those who count and for error messages."""

    def empty(self, num_bytes: int) -> Array:
        """So many bytes of any contents, where this wire moves them best: what MPI calls Alloc_mem.

        Any other memory will do as well.
        """
        return np.empty(num_bytes, np.uint8)

    @abstractmethod
    def landed(self, pending: Pending) -> bool:
        """Whether all of them are over. Never waits; asking again is allowed."""

    @abstractmethod
    def missing(self, pending: Pending) -> tuple[list[int], list[int]]:
        """The peers that have not yet taken a send, and those that have not yet sent: for error messages."""

    @abstractmethod
    def split(self, color: int | None, key: int, limit: float | None = TIME_LIMIT) -> "Transport | None":
        """A transport among the ranks of the same color, ordered by key; None where color is None.

        Every rank calls it. Not counted: it is set-up, and moves none of the caller's bytes. What is
        in flight moves on meanwhile. TransportError after ``limit`` seconds without news.
        """

    @abstractmethod
    def exchange(self, value: object, limit: float | None = TIME_LIMIT) -> list[Any]:
        """Every rank's value, in rank order, on every rank: by the transport's own means, not counted.

        For set-up and for reports, which cannot count themselves. What is in flight moves on meanwhile.
        TransportError after ``limit`` seconds without news.
        """

    def tell(self, *ranks: int) -> str:
        """``rank 1, 2``: for a message, ranks of this transport, each with its world rank if that differs."""
        names = (
            f"{rank}" if rank == member else f"{rank} (world rank {member})"
            for rank, member in ((rank, self.members[rank]) for rank in ranks)
        )
        return f"rank {', '.join(names)}"

    def agree(self, fault: str | None, limit: float | None = TIME_LIMIT) -> None:
        """Go on if no rank has a fault; otherwise ValueError on all of them. Set-up, and so not counted."""
        for rank, told in enumerate(self.exchange(fault, limit)):
            if told is not None:
                raise ValueError(f"{self.tell(rank)} {told}")

    def close(self, limit: float | None = TIME_LIMIT) -> None:
        """Give back what the transport holds. Every rank calls it; any use after that is a ValueError."""
        self.tags.close()

    def wait_until(self, ready: Callable[[], bool], limit: float | None) -> bool:
        """Whether it got ready before ``limit`` seconds had passed without news. None waits for ever.

        Everything in flight is nudged meanwhile: another rank may be waiting for just that.
        """
        last_news = time.monotonic()
        while not ready():
            now = time.monotonic()
            if self.in_flight.nudge_all():
                last_news = now
            elif limit is None or now - last_news < limit:
                self.pause(now - last_news)
            else:
                return False
        return True

    def pause(self, waited: float) -> None:
        """Give the core away after ``waited`` seconds without news: not at once, a moment, then for real.

        A peer on a core of its own answers within a few microseconds, less than it takes to give ours away.
        After that a rank that spins steals the core from the very rank it waits for.
        """
        if waited > YIELD_SECONDS:
            time.sleep(SLEEP_SECONDS)
        elif waited > EAGER_SECONDS:
            _yield_core()


class WrappedTransport(Transport):
    """Any transport, seen through: the base of those that count, check or delay what ``inner`` does."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.rank, self.world_size, self.members = inner.rank, inner.world_size, inner.members
        self.tags, self.in_flight = inner.tags, inner.in_flight

    @abstractmethod
    def wrap(self, inner: Transport) -> Transport:
        """The same wrapper around a split of ``inner``."""

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> Pending:
        return self._inner.post(sends, recvs, tag, origin)

    def landed(self, pending: Pending) -> bool:
        return self._inner.landed(pending)

    def missing(self, pending: Pending) -> tuple[list[int], list[int]]:
        return self._inner.missing(pending)

    def empty(self, num_bytes: int) -> Array:
        return self._inner.empty(num_bytes)

    def split(self, color: int | None, key: int, limit: float | None = TIME_LIMIT) -> Transport | None:
        inner = self._inner.split(color, key, limit)
        return None if inner is None else self.wrap(inner)

    def exchange(self, value: object, limit: float | None = TIME_LIMIT) -> list[Any]:
        return self._inner.exchange(value, limit)

    def agree(self, fault: str | None, limit: float | None = TIME_LIMIT) -> None:
        self._inner.agree(fault, limit)

    def pause(self, waited: float) -> None:
        self._inner.pause(waited)

    def close(self, limit: float | None = TIME_LIMIT) -> None:
        self._inner.close(limit)
