"""What an algorithm declares of itself: the promise it keeps, where it may be used, and what it costs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from collectives.blocks import even_cut
from collectives.promises import Collective, Sizes
from collectives.schedule import Block, Schedule


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

    ``schedule``: of ``(rank, world_size)``; of ``(rank, world_size, root)`` if its collective has a
    root. ``commutative_only``: whether it may only be used with operators that commute. ``own_sizes``:
    whether every block goes straight to where it belongs, so that no rank needs to know the size of one
    that it neither starts nor ends with. ``parts``: into how many each block b is cut; if more than 1,
    the schedule names ``(b, part)``.
    """

    name: str
    collective: Collective
    schedule: Callable[..., Schedule]
    commutative_only: bool = False
    cost: Cost | None = None
    limit: Limit = ANY
    parts: int = 1
    own_sizes: bool = False

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
        return f"{self.name} {self.collective}"

    def steps(self, rank: int, world_size: int) -> Schedule:
        """What one rank does."""
        root = self.collective.root
        return self.schedule(rank, world_size) if root is None else self.schedule(rank, world_size, root)

    def at(self, root: int | None) -> "Algorithm":
        """The same algorithm for another root: the very same object for the same one."""
        return self if root == self.collective.root else _rerooted(self, root)

    @cached_property
    def promise(self) -> Collective:
        """The collective in the blocks that the schedule names."""
        return self.collective.in_parts(self.parts) if self.parts > 1 else self.collective

    def block_sizes(self, sizes: Sizes) -> Mapping[Block, int | None]:
        """The elements of each block that the schedule names: ``Collective.block_sizes``, cut into parts."""
        whole = self.collective.block_sizes(sizes)
        if self.parts == 1:
            return whole
        return {
            (block, part): part_size
            for block, size in whole.items()
            for part, part_size in enumerate(
                even_cut(size, self.parts) if size is not None else [None] * self.parts
            )
        }


@lru_cache(maxsize=1024)
def _rerooted(algorithm: Algorithm, root: int | None) -> Algorithm:
    return replace(algorithm, collective=algorithm.collective.at(root))
