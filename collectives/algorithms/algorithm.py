"""What an algorithm declares of itself: the promise it keeps, where it may be used, and what it costs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from collectives.blocks import even_cut
from collectives.promises import Collective
from collectives.schedule import Block, MakeSchedule


@dataclass(frozen=True)
class Limit:
    """The world sizes that an algorithm is for. An error says: a world size that is ``words``."""

    words: str
    allows: Callable[[int], bool]


ANY = Limit("any", lambda world_size: True)
POWER_OF_TWO = Limit("a power of two", lambda world_size: world_size.bit_count() == 1)
EVEN = Limit("even", lambda world_size: world_size % 2 == 0)


@dataclass(frozen=True)
class Cost:
    """Closed forms of the world size, which a proof holds against the schedule.

    ``steps``: those of every rank, the ones in which it idles among them.
    ``blocks_sent``: by the rank that sends most.
    """

    steps: Callable[[int], int]
    blocks_sent: Callable[[int], int]


@dataclass(frozen=True, eq=False)
class Algorithm:
    """A schedule with the promise it keeps, the limits it declares and what it says that it costs.

    Compared and hashed by identity: the engine looks plans up by it, in every call.

    ``commutative_only``: whether it may only be used with operators that commute.
    ``parts``: into how many each block b is cut; if more than 1, the schedule names ``(b, part)``.
    """

    name: str
    collective: Collective
    schedule: MakeSchedule
    commutative_only: bool = False
    cost: Cost | None = None
    limit: Limit = ANY
    parts: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ValueError(f"an algorithm named {self.name!r}: give it a text for a name")
        if not isinstance(self.collective, Collective):
            raise ValueError(
                f"algorithm {self.name!r} is to keep {self.collective!r}: give a promise, one of promises.py"
            )
        if not isinstance(self.parts, int) or self.parts < 1:
            raise ValueError(f"{self} cuts blocks into {self.parts} parts: give a whole number from 1")

    def __str__(self) -> str:
        return f"{self.name} {self.collective.name}"

    @cached_property
    def promise(self) -> Collective:
        """The collective in the blocks that the schedule names."""
        return self.collective.in_parts(self.parts) if self.parts > 1 else self.collective

    def block_sizes(self, sizes: Sequence[int]) -> dict[Block, int]:
        """The elements of each block that the schedule names, where each rank's block has so many."""
        if self.parts == 1:
            return dict(enumerate(sizes))
        return {
            (block, part): part_size
            for block, size in enumerate(sizes)
            for part, part_size in enumerate(even_cut(size, self.parts))
        }
