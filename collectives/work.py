"""Collectives in flight: started, nudged along together, and finished within a time limit."""

import time
from collections.abc import Iterator

from collectives.ledger import Call, Origin
from collectives.transports.base import Pending, Transport

Lane = Iterator[tuple[Pending, Origin]]
"""A suspended generator: what it waits for; resume it when that has landed."""


class CollectiveTimeoutError(TimeoutError):
    """Nothing has come for too long; the message says who waited for whom, in which step of what."""


class Work:
    """A collective in flight: stages one after the other, the lanes of a stage side by side.

    The output may be read, and the input changed, once it is done. A Work that has failed stays failed: every
    wait and poll of it raises what it failed with.
    """

    def __init__(
        self, call: Call, transport: Transport, stages: Iterator[list[Lane]], in_flight: "InFlight"
    ) -> None:
        self.call, self.transport, self.done = call, transport, False
        self.failure: BaseException | None = None
        self._stages, self._in_flight = stages, in_flight
        self._waiting: list[tuple[Lane, Pending, Origin]] = []

    def wait(self) -> None:
        """Finish it. Raises CollectiveTimeoutError after the time limit without any news."""
        if not self.over:
            self._in_flight.drive(self)
        self._check_failure()

    def poll(self) -> bool:
        """Whether it is done, after a nudge; never waits. Computing ranks call it so that messages move."""
        if not self.over:
            self._in_flight.nudge_all()
        self._check_failure()
        return self.done

    @property
    def over(self) -> bool:
        """Whether it is done or has failed."""
        return self.done or self.failure is not None

    def nudge(self) -> bool:
        """Resume every lane whose messages have landed; says whether there was one.

        A failure is kept for its own wait: whoever nudges may be waiting for another Work.
        """
        try:
            return self._advance()
        except BaseException as failure:
            self.failure = failure  # a lane that raised is exhausted: going on would look like success
            if not isinstance(failure, Exception):
                raise
            return True

    def describe_wait(self) -> str:
        """Who is waited for, in which step: for the message of a time limit."""
        for _, pending, origin in self._waiting:
            if not self.transport.landed(pending):
                return describe_wait(self.transport, pending, origin, self.call)
        return f"{self.call}: its messages have just landed"

    def _advance(self) -> bool:
        news = False
        waiting: list[tuple[Lane, Pending, Origin]] = []
        for lane, pending, origin in self._waiting:
            if self.transport.landed(pending):
                news = True
                _resume(lane, waiting)
            else:
                waiting.append((lane, pending, origin))
        while not waiting and not self.done:
            lanes = next(self._stages, None)
            if lanes is None:
                self.done = news = True
                break
            for start in lanes:
                _resume(start, waiting)
        self._waiting = waiting
        return news

    def _check_failure(self) -> None:
        if self.failure is not None:
            raise self.failure


def _resume(lane: Lane, waiting: list[tuple[Lane, Pending, Origin]]) -> None:
    step = next(lane, None)
    if step is not None:
        waiting.append((lane, *step))


def describe_wait(transport: Transport, pending: Pending, origin: Origin, call: Call) -> str:
    """Whom this rank waits for, in which step of what."""
    sends, recvs = transport.missing(pending)
    whom = [f"for rank {', '.join(map(str, recvs))} to send"] if recvs else []
    whom += [f"for rank {', '.join(map(str, sends))} to receive"] if sends else []
    # Perhaps in its call check: but it is the call that the caller knows.
    stage = "" if origin.call == call else f" ({origin.call.collective})"
    return f"{call}{stage}, step {origin.step}, chunk {origin.chunk}: {' and '.join(whom)}"


class InFlight:
    """The Works that are not over, of a Communicator and of all that were split off it.

    Whoever waits for one nudges them all, so two ranks may await two Works in different orders.
    """

    def __init__(self, time_limit: float) -> None:
        self.time_limit = time_limit
        self.works: list[Work] = []

    def start(self, call: Call, transport: Transport, stages: Iterator[list[Lane]]) -> Work:
        """A new Work, whose first messages are on their way."""
        work = Work(call, transport, stages, self)
        self.works.append(work)
        self.nudge_all()
        return work

    def nudge_all(self) -> bool:
        """Nudge every Work, and forget those that are over; says whether there was any news."""
        news = False
        for work in tuple(self.works):
            news = work.nudge() or news
            if work.over:
                self.works.remove(work)
        return news

    def drive(self, work: Work) -> None:
        """Nudge all Works until this one is over."""
        last_news = time.monotonic()
        while not work.over:
            now = time.monotonic()
            if self.nudge_all():
                last_news = now
            elif now - last_news < self.time_limit:
                work.transport.pause(now - last_news)
            else:
                self._give_up(work.transport, work.describe_wait())

    def walk_through(self, transport: Transport, lane: Lane) -> None:
        """Finish a lane that is alone in flight: what a Work does, with less ado."""
        assert not self.works, "nobody would nudge the others"
        for pending, origin in lane:
            start = time.monotonic()
            while not transport.landed(pending):
                waited = time.monotonic() - start
                if waited > self.time_limit:
                    self._give_up(transport, describe_wait(transport, pending, origin, origin.call))
                transport.pause(waited)

    def _give_up(self, transport: Transport, where: str) -> None:
        raise CollectiveTimeoutError(f"rank {transport.rank} waited {self.time_limit:g} s in {where}")
