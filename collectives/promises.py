"""What each collective promises, apart from any algorithm: the blocks a rank starts with and must end with.

A block is *complete* when every rank that starts with it has contributed exactly once. So an all-gather,
whose blocks have one contributor each, and a reduce-scatter, whose blocks have all of them, are judged alike.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from collectives.schedule import Block

Blocks = tuple[Block, ...]


def _own(rank: int, world_size: int) -> Blocks:
    return (rank,)


def _all(rank: int, world_size: int) -> Blocks:
    return tuple(range(world_size))


@dataclass(frozen=True)
class Collective:
    """A promise: ``starts_with`` and ``ends_with`` map ``(rank, world_size)`` to blocks, in memory order."""

    name: str
    starts_with: Callable[[int, int], Blocks]
    ends_with: Callable[[int, int], Blocks]
    reduces: bool

    def contributors(self, world_size: int) -> dict[Block, frozenset[int]]:
        """For each block, the ranks whose contribution it needs."""
        found: dict[Block, set[int]] = {}
        for rank in range(world_size):
            for block in self.starts_with(rank, world_size):
                found.setdefault(block, set()).add(rank)
        return {block: frozenset(ranks) for block, ranks in found.items()}

    def in_parts(self, parts: int) -> "Collective":
        """The same promise where each block b is cut into parts ``(b, 0)``, ``(b, 1)`` and so on."""

        def cut(blocks_of: Callable[[int, int], Blocks]) -> Callable[[int, int], Blocks]:
            return lambda rank, world_size: tuple(
                (block, part) for block in blocks_of(rank, world_size) for part in range(parts)
            )

        return replace(self, starts_with=cut(self.starts_with), ends_with=cut(self.ends_with))


ALL_GATHER = Collective("all_gather", starts_with=_own, ends_with=_all, reduces=False)
REDUCE_SCATTER = Collective("reduce_scatter", starts_with=_all, ends_with=_own, reduces=True)
ALL_REDUCE = Collective("all_reduce", starts_with=_all, ends_with=_all, reduces=True)

COLLECTIVES = {promise.name: promise for promise in (ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE)}
