"""A collective in flight."""

from collections.abc import Callable, Iterator

from collectives.ledger import Call, Origin
from collectives.transports.base import Pending, Transport

Lane = Iterator[tuple[Pending, Origin]]
"""A suspended generator: what it waits for; resume it when that has landed."""


class CollectiveTimeoutError(TimeoutError):
    """Nothing has come for too long; the message says who waited for whom, in which step of what."""


class Work:
    """A collective in flight: stages one after the other, the lanes of a stage side by side.

    The Communicator owns it and nudges all its Works at once, so two ranks may await two Works in different
    orders. The output may be read, and the input changed, once it is done.
    """

    def __init__(
        self,
        call: Call,
        transport: Transport,
        stages: Iterator[list[Lane]],
        drive: Callable[["Work"], None],
        nudge_all: Callable[[], bool],
    ) -> None:
        self.call, self.done = call, False
        self.failure: BaseException | None = None
        self._transport, self._stages, self._drive, self._nudge_all = transport, stages, drive, nudge_all
        self._waiting: list[tuple[Lane, Pending, Origin]] = []

    def wait(self) -> None:
        """Finish it. Raises CollectiveTimeoutError after the Communicator's limit without any news.

        A Work that has failed stays failed: every wait and poll of it raises what it failed with.
        """
        if not self.over:
            self._drive(self)
        self._check_failure()

    def poll(self) -> bool:
        """Whether it is done, after a nudge; never waits. Computing ranks call it so that messages move."""
        if not self.over:
            self._nudge_all()
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

    def _check_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _advance(self) -> bool:
        news = False
        waiting: list[tuple[Lane, Pending, Origin]] = []
        for lane in self._waiting:
            if self._transport.landed(lane[1]):
                news = True
                _resume(lane[0], waiting)
            else:
                waiting.append(lane)
        while not waiting and not self.done:
            lanes = next(self._stages, None)
            if lanes is None:
                self.done = news = True
                break
            for start in lanes:
                _resume(start, waiting)
        self._waiting = waiting
        return news

    def describe_wait(self) -> str:
        """Who is waited for, in which step: for the message of a time limit."""
        for _, pending, origin in self._waiting:
            sends, recvs = self._transport.missing(pending)
            whom = [f"for rank {', '.join(map(str, recvs))} to send"] if recvs else []
            whom += [f"for rank {', '.join(map(str, sends))} to receive"] if sends else []
            if whom:
                # Perhaps in its call check: but it is the call that the caller knows.
                stage = "" if origin.call == self.call else f" ({origin.call.collective})"
                step = f"step {origin.step}, chunk {origin.chunk}"
                return f"{self.call}{stage}, {step}: {' and '.join(whom)}"
        return f"{self.call}: its messages have just landed"


def _resume(lane: Lane, waiting: list[tuple[Lane, Pending, Origin]]) -> None:
    step = next(lane, None)
    if step is not None:
        waiting.append((lane, *step))
