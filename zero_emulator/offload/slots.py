"""Memory of the device that large state passes through in turn.

While one slot is computed on, the next is filled. What makes that safe is a rule: a slot is written
only when all of its users are over, and a user is over only when its ``finish`` has been called and has
returned. Whether the rule holds does not depend on timing, so code that forgets to wait fails always,
not once in a thousand runs.
"""

from collections import deque
from collections.abc import Callable

import numpy.typing as npt

from zero_emulator.layout import Array, Empty


class SlotError(RuntimeError):
    """A slot would be written while somebody may still use it, or read while it is empty."""


class Slot:
    """One piece of device memory, of whatever size its state has; ``name`` is the state that it holds."""

    def __init__(self, number: int, empty: Empty) -> None:
        self.number, self.name = number, "nothing"
        self._empty = empty
        self._memory: Array | None = None
        self._users: deque[tuple[str, Callable[[], None]]] = deque()

    def write(self, size: int, dtype: npt.DTypeLike) -> Array:
        """New memory of exactly that size, to be written; what the slot held before is let go of.

        SlotError if a user has not been awaited, even one that happens to have finished.
        """
        if self._users:
            user, _ = self._users[0]
            raise SlotError(
                f"slot {self.number} holds {self.name}, and {user} has not been awaited: settle the slot "
                f"before {size} elements are written to it"
            )
        self._memory = None  # first, or both would be there for a moment
        self._memory = self._empty(size, dtype)
        return self._memory

    @property
    def memory(self) -> Array:
        """What was written last, until the slot is settled; SlotError if there is nothing."""
        if self._memory is None:
            raise SlotError(f"slot {self.number} is empty: write to it first")
        return self._memory

    def used_by(self, name: str, finish: Callable[[], None]) -> None:
        """Somebody reads or fills the slot until ``finish`` has returned: a ring, the copy thread."""
        self._users.append((name, finish))

    def settle(self) -> None:
        """Finish all users in their order, then let go of the memory.

        If one of them fails, it and those behind it remain users.
        """
        while self._users:
            _, finish = self._users[0]
            finish()
            self._users.popleft()
        self._memory, self.name = None, "nothing"


class Slots:
    """``num`` slots that take turns, whose memory ``empty`` makes; with one, nothing overlaps."""

    def __init__(self, empty: Empty, num: int = 2) -> None:
        if num < 1:
            raise ValueError(f"{num} slots hold nothing: give 1, or 2 to fill one while the other is used")
        self.num = num
        self._slots = deque(Slot(number, empty) for number in range(num))

    def next(self, name: str) -> Slot:
        """The slot whose turn it is, settled and empty, for the state of that name."""
        slot = self._slots[0]
        slot.settle()
        slot.name = name
        self._slots.rotate(-1)
        return slot

    def drain(self) -> None:
        """Settle all, the one that was filled first before the others."""
        for slot in self._slots:
            slot.settle()
