"""Collectives in flight: started, nudged along together, and finished within a time limit."""

from collections.abc import Iterator
from functools import partial

from collectives.ledger import Call, Origin
from collectives.transports.base import Pending, Transport
from collectives.transports.in_flight import Tags

Lane = Iterator[tuple[Pending, Origin]]
"""A suspended generator: what it waits for; resume it when that has landed."""


class CollectiveTimeoutError(TimeoutError):
    """Nothing has come for too long; the message says who waited for whom, in which step of what."""


class Work:
    """A collective in flight: stages one after the other, the lanes of a stage side by side.

    The output may be read, and the input changed, once it is done. A Work that has failed stays failed: every
    wait and poll of it raises what it failed with. One whose wait ran into its limit has not failed: it stays
    in flight, and may be awaited again. The memory of either is held for as long as messages may touch it.

    ``memory`` is what the call works in. It is let go of by the wait or poll that finds the Work done, and
    not when the last message lands: so when it is freed does not depend on the weather.
    """

    tags_are_kept = False
    """Whether nobody else will ever be given its tags."""

    def __init__(
        self, call: Call, transport: Transport, stages: Iterator[list[Lane]], time_limit: float
    ) -> None:
        self.call, self.transport, self.time_limit, self.done = call, transport, time_limit, False
        self.failure: BaseException | None = None
        self.memory: object = None
        self._stages, self._in_flight = stages, transport.in_flight
        self._waiting: list[tuple[Lane, Pending, Origin]] = []

    def start(self) -> None:
        """Put its first messages on their way."""
        self._in_flight.works.append(self)
        self._in_flight.nudge_all()

    def wait(self) -> None:
        """Finish it. Raises CollectiveTimeoutError after the time limit without any news."""
        if not self.transport.wait_until(lambda: self.over, self.time_limit):
            raise self._timeout()
        self._conclude()

    def await_step(self, lane: Lane, pending: Pending, origin: Origin) -> None:
        """Wait for a step of its only lane, alone in flight; at the limit it stays in flight."""
        self._waiting = [(lane, pending, origin)]
        if not self.transport.wait_until(partial(self.transport.landed, pending), self.time_limit):
            self._in_flight.works.append(self)
            raise self._timeout()
        self._waiting = []

    def poll(self) -> bool:
        """Whether it is done, after a nudge; never waits. Computing ranks call it so that messages move."""
        if not self.over:
            self._in_flight.nudge_all()
        self._conclude()
        return self.done

    @property
    def tags(self) -> Tags:
        """Where its tags come from: one for all Works of a transport, whatever is wrapped around it."""
        return self.transport.tags

    @property
    def over(self) -> bool:
        """Whether it is done or has failed."""
        return self.done or self.failure is not None

    def nudge(self) -> bool:
        """Resume every lane whose messages have landed; says whether there was one.

        A failure is kept for its own wait: whoever nudges may be waiting for another Work.
        """
        if self.over:
            return False
        try:
            return self._advance()
        except BaseException as failure:
            self.failure = failure  # a lane that raised is exhausted: going on would look like success
            if not isinstance(failure, Exception):
                raise
            return True

    def landed(self) -> bool:
        """Whether no message of it is under way."""
        try:
            return all(self.transport.landed(pending) for _, pending, _ in self._waiting)
        except Exception:
            return False  # whoever cannot tell must hold on to the memory

    def describe_wait(self) -> str:
        """Who is waited for, in which step: for the message of a time limit."""
        for _, pending, origin in self._waiting:
            if not self.transport.landed(pending):
                return describe_wait(self.transport, pending, origin, self.call)
        return f"{self.call}: its messages have just landed"

    def _advance(self) -> bool:
        news = False
        before, self._waiting = self._waiting, []
        for place, (lane, pending, origin) in enumerate(before):
            try:
                if self.transport.landed(pending):
                    news = True
                    self._resume(lane)
                else:
                    self._waiting.append((lane, pending, origin))
            except BaseException:
                self._waiting += before[place:]  # their messages are still under way
                raise
        while not self._waiting and not self.done:
            lanes = next(self._stages, None)
            if lanes is None:
                self.done = news = True
                break
            for start in lanes:
                self._resume(start)
        return news

    def _resume(self, lane: Lane) -> None:
        step = next(lane, None)
        if step is not None:
            self._waiting.append((lane, *step))

    def _timeout(self) -> CollectiveTimeoutError:
        who = self.transport.tell(self.transport.rank)
        return CollectiveTimeoutError(f"{who} waited {self.time_limit:g} s in {self.describe_wait()}")

    def _conclude(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.done:
            self.memory = None


def describe_wait(transport: Transport, pending: Pending, origin: Origin, call: Call) -> str:
    """Whom this rank waits for, in which step of what."""
    sends, recvs = transport.missing(pending)
    whom = [f"for {transport.tell(*recvs)} to send"] if recvs else []
    whom += [f"for {transport.tell(*sends)} to receive"] if sends else []
    # Perhaps in its call check: but it is the call that the caller knows.
    stage = "" if origin.call.collective == call.collective else f" ({origin.call.collective})"
    return f"{call}{stage}, step {origin.step}, chunk {origin.chunk}: {' and '.join(whom)}"
