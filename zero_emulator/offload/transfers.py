"""Copies over the link that a rank computes beside."""

from collections.abc import Callable
from functools import partial

from zero_emulator.layout import Array
from zero_emulator.offload.copier import Copier, Ticket
from zero_emulator.offload.link import Direction, Link


class Transfer:
    """A copy under way; ``wait`` before its target is read, or either of its arrays is written to."""

    def __init__(self, ticket: Ticket, clock: Callable[[], float], note: Callable[[float], None]) -> None:
        self._ticket, self._clock = ticket, clock
        self._note: Callable[[float], None] | None = note
        self._begin = clock()

    def wait(self) -> None:
        """Finish it, as ``Ticket.wait`` does. The first call says when the copy was needed."""
        if self._note is not None:
            note, self._note = self._note, None
            note(self._clock() - self._begin)
        self._ticket.wait()


class Transfers:
    """A link that is used by a copy thread: copies in the order of the calls, in the link's log when needed.

    Both arrays are the caller's to keep until the wait has returned: see ``Ticket``.
    """

    def __init__(self, link: Link, copier: Copier) -> None:
        self.link, self.copier = link, copier

    def to_host(self, name: str, source: Array, target: Array) -> Transfer:
        """Start to copy to the host."""
        return self._start(name, "to host", self.link.to_host, source, target)

    def to_device(self, name: str, source: Array, target: Array) -> Transfer:
        """Start to copy to the device."""
        return self._start(name, "to device", self.link.to_device, source, target)

    def _start(
        self,
        name: str,
        direction: Direction,
        copy: Callable[[Array, Array], None],
        source: Array,
        target: Array,
    ) -> Transfer:
        ticket = self.copier.submit(partial(copy, source, target))
        return Transfer(ticket, self.link.clock, partial(self.link.note, name, source.nbytes, direction))
