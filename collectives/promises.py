"""What each collective promises, apart from any algorithm: the blocks a rank starts with and must end with.

A block is *complete* when every rank that starts with it has contributed exactly once. So an all-gather,
whose blocks have one contributor each, and a reduce-scatter, whose blocks have all of them, are judged alike.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from collectives.schedule import Block

Blocks = tuple[Block, ...]
Holds = Callable[[int, int], Blocks]
"""``(rank, world_size)`` to blocks, in memory order."""

Sizes = tuple[Any, ...]
"""The elements of each rank's block; or a tuple of each rank's tuples, if blocks go by pair: row s, column d.

None where this rank does not know a size, which is then not its business."""

HoldsFromRoot = Callable[[int, int, int], Blocks]
"""``(rank, world_size, root)`` to blocks, in memory order."""


@dataclass(frozen=True)
class Collective:
    """A promise: what each rank starts with and must end with.

    ``needs``: the ranks whose contributions a rank's blocks must hold in the end, where that is not all.
    ``root``: of a rooted collective, which is another promise for each root; ``at`` gives it.
    ``by_pair``: whether blocks are named ``(source, destination)``, and have a size for each pair of ranks.
    ``empty``: whether its blocks are signals, which have no bytes and are sent all the same.
    """

    name: str
    starts_with: Holds
    ends_with: Holds
    reduces: bool
    needs: Callable[[int, int], range] | None = None
    root: int | None = None
    rerooted: "Callable[[int], Collective] | None" = None
    by_pair: bool = False
    empty: bool = False

    def __str__(self) -> str:
        return f"{self.name} (root {self.root})" if self.root else self.name

    def at(self, root: int | None) -> "Collective":
        """The same promise with another root: the very same object for the same one."""
        if root is None or self.rerooted is None:
            raise ValueError(
                f"{self.name} at root {root}: " + ("name one" if self.rerooted else "it has none")
            )
        return self.rerooted(root)

    def contributors(self, world_size: int) -> dict[Block, frozenset[int]]:
        """For each block, the ranks that start with it."""
        found: dict[Block, set[int]] = {}
        for rank in range(world_size):
            for block in self.starts_with(rank, world_size):
                found.setdefault(block, set()).add(rank)
        return {block: frozenset(ranks) for block, ranks in found.items()}

    def block_sizes(self, sizes: Sizes) -> Mapping[Block, int | None]:
        """The elements of each block."""
        if self.by_pair:
            return {(source, to): size for source, row in enumerate(sizes) for to, size in enumerate(row)}
        return dict(enumerate(sizes))

    def in_parts(self, parts: int) -> "Collective":
        """The same promise where each block b is cut into parts ``(b, 0)``, ``(b, 1)`` and so on."""

        def cut(blocks_of: Holds) -> Holds:
            return lambda rank, world_size: tuple(
                (block, part) for block in blocks_of(rank, world_size) for part in range(parts)
            )

        return replace(self, starts_with=cut(self.starts_with), ends_with=cut(self.ends_with))


def all_sizes(sizes: Sizes) -> list[int]:
    """All of them in a row."""
    return [size for row in sizes for size in (row if isinstance(row, tuple) else (row,))]


def _own(rank: int, world_size: int) -> Blocks:
    return (rank,)


def _all(rank: int, world_size: int) -> Blocks:
    return tuple(range(world_size))


def _row(rank: int, world_size: int) -> Blocks:
    return tuple((rank, destination) for destination in range(world_size))


def _column(rank: int, world_size: int) -> Blocks:
    return tuple((source, rank) for source in range(world_size))


def _all_but_on_first(rank: int, world_size: int) -> Blocks:
    return _all(rank, world_size) if rank else ()


def _all_on_root(rank: int, world_size: int, root: int) -> Blocks:
    return _all(rank, world_size) if rank == root else ()


def _rooted(name: str, starts_with: HoldsFromRoot, ends_with: HoldsFromRoot, *, reduces: bool) -> Collective:
    @cache
    def at(root: int) -> Collective:
        return Collective(
            name,
            lambda rank, world_size: starts_with(rank, world_size, root),
            lambda rank, world_size: ends_with(rank, world_size, root),
            reduces,
            root=root,
            rerooted=at,
        )

    return at(0)


def _whoever_is_root(holds: Holds) -> HoldsFromRoot:
    return lambda rank, world_size, root: holds(rank, world_size)


ALL_GATHER = Collective("all_gather", starts_with=_own, ends_with=_all, reduces=False)
REDUCE_SCATTER = Collective("reduce_scatter", starts_with=_all, ends_with=_own, reduces=True)
ALL_REDUCE = Collective("all_reduce", starts_with=_all, ends_with=_all, reduces=True)
ALL_TO_ALL = Collective("all_to_all", starts_with=_row, ends_with=_column, reduces=False, by_pair=True)

BROADCAST = _rooted("broadcast", _all_on_root, _whoever_is_root(_all), reduces=False)
REDUCE = _rooted("reduce", _whoever_is_root(_all), _all_on_root, reduces=True)
GATHER = _rooted("gather", _whoever_is_root(_own), _all_on_root, reduces=False)
SCATTER = _rooted("scatter", _all_on_root, _whoever_is_root(_own), reduces=False)

SCAN = Collective("scan", _all, _all, reduces=True, needs=lambda rank, world_size: range(rank + 1))
EXSCAN = Collective(
    "exscan", _all, _all_but_on_first, reduces=True, needs=lambda rank, world_size: range(rank)
)

BARRIER = Collective("barrier", starts_with=_own, ends_with=_all, reduces=False, empty=True)
"""Every rank ends with a signal from every other: none can leave before all have come."""

COLLECTIVES = {
    promise.name: promise
    for promise in (
        ALL_GATHER,
        REDUCE_SCATTER,
        ALL_REDUCE,
        BROADCAST,
        REDUCE,
        GATHER,
        SCATTER,
        ALL_TO_ALL,
        BARRIER,
        SCAN,
        EXSCAN,
    )
}
