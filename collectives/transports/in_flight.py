"""What is in flight on one rank, and the tags that tell its messages apart: owned by the transport.

So any number of Communicators on one transport, wrapped or not, move each other's messages along and never
mix them.
"""

from collections.abc import Callable
from typing import Any, NoReturn, Protocol


class _Closed:
    def __getattr__(self, name: str) -> NoReturn:
        raise ValueError("this communicator is closed: close it after its last use, or make another")


CLOSED: Any = _Closed()
"""Stands in the place of what a transport has given back: whatever is asked of it is a ValueError."""


class Tags:
    """The tags of a transport: taken from the low end for one call, kept from the high end for good.

    Alike on every rank, because all ranks make the same calls in the same order.
    """

    def __init__(self, max_tag: int) -> None:
        self.total = self._end = max_tag + 1
        self._next = 0
        self.closed = False

    def take(self, number: int, settle: Callable[[], object]) -> int:
        """The first of ``number`` tags that nothing in flight uses; ``settle`` ends what is in flight."""
        if self._next + number > self._end:
            self._check(number)
            # All ranks get here at the same call; whatever is in flight was started on all of them before.
            settle()
            self._next = 0
        self._next += number
        return self._next - number

    def keep(self, number: int, settle: Callable[[], object]) -> int:
        """The first of ``number`` tags that are never given away again."""
        self._check(number)
        if self._end - number < self._next:  # a call in flight may use them
            settle()
            self._next = 0
        self._end -= number
        return self._end

    def close(self) -> None:
        """Give no more tags. ValueError if there are none any more."""
        self.check_open()
        self.closed, self._end = True, -1

    def check_open(self) -> None:
        """ValueError after ``close``."""
        if self.closed:
            CLOSED.take()

    def _check(self, number: int) -> None:
        self.check_open()
        if number > self._end:
            raise ValueError(
                f"a call needs {number} tags, and prepared collectives have left {self._end} of "
                f"{self.total}: prepare fewer, or take larger chunks"
            )


class Flight(Protocol):
    """A Work, as far as it is moved along."""

    tags_are_kept: bool
    """Whether nobody else will ever be given its tags."""

    @property
    def tags(self) -> Tags: ...

    @property
    def over(self) -> bool:
        """Whether it is done or has failed."""

    def nudge(self) -> bool:
        """Move it along; says whether there was any news."""

    def landed(self) -> bool:
        """Whether the transport may touch its memory no more."""


class InFlight:
    """The Works of one rank that are not over, on a transport and on all that were split off it.

    Whoever waits for anything nudges them all, so two ranks may await two Works in different orders. Those
    that failed with messages under way are held until these have landed: their memory may be written yet.
    """

    def __init__(self) -> None:
        self.works: list[Flight] = []
        self.failed: list[Flight] = []

    def nudge_all(self) -> bool:
        """Nudge every Work, and forget those that are over; says whether there was any news."""
        news = False
        for work in tuple(self.works):
            news = work.nudge() or news
            if work.over and work in self.works:
                self.works.remove(work)
                self.failed.append(work)
        if self.failed:
            self.failed = [work for work in self.failed if not work.landed()]
        return news
