"""The table of algorithms: a newcomer adds a generator in a file of its family, and one line here."""

from collections.abc import Callable
from operator import index
from typing import Any

from collectives.algorithms import (
    bruck,
    chain,
    costs,
    direct,
    dissemination,
    doubling,
    halving,
    in_two,
    neighbors,
    pairwise,
    pat,
    prefix,
    rabenseifner,
    ring,
    tree,
    two_level,
    two_way,
)
from collectives.algorithms.algorithm import EVEN, POWER_OF_TWO, Algorithm, Cost, Limit
from collectives.promises import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BARRIER,
    BROADCAST,
    COLLECTIVES,
    EXSCAN,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCAN,
    SCATTER,
    Collective,
)

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Cost",
    "Limit",
    "at_root",
    "check_commutes",
    "check_limit",
    "find_algorithm",
]

REORDERS = True
"""Operands do not stay in rank order, so it is for operators that commute only."""

_TABLE = (
    Algorithm("ring", ALL_GATHER, ring.all_gather, cost=costs.RING),
    Algorithm("bidirectional_ring", ALL_GATHER, two_way.all_gather, cost=costs.RING, parts=2),
    Algorithm("neighbor_exchange", ALL_GATHER, neighbors.all_gather, cost=costs.NEIGHBORS, limit=EVEN),
    Algorithm("recursive_doubling", ALL_GATHER, doubling.all_gather, cost=costs.LOG, limit=POWER_OF_TWO),
    Algorithm("bruck", ALL_GATHER, bruck.all_gather, cost=costs.LOG),
    Algorithm("pat", ALL_GATHER, pat.all_gather, cost=costs.LOG),
    Algorithm("direct", ALL_GATHER, direct.all_gather, cost=costs.DIRECT),
    Algorithm("ring", REDUCE_SCATTER, ring.reduce_scatter, REORDERS, costs.RING),
    Algorithm("bidirectional_ring", REDUCE_SCATTER, two_way.reduce_scatter, REORDERS, costs.RING, parts=2),
    Algorithm("pairwise", REDUCE_SCATTER, pairwise.reduce_scatter, REORDERS, costs.RING),
    Algorithm("recursive_halving", REDUCE_SCATTER, halving.reduce_scatter, REORDERS, costs.HALVING),
    Algorithm("ordered_halving", REDUCE_SCATTER, halving.ordered_reduce_scatter, cost=costs.HALVING),
    Algorithm("pat", REDUCE_SCATTER, pat.reduce_scatter, REORDERS, costs.LOG),
    Algorithm("direct", REDUCE_SCATTER, direct.reduce_scatter, cost=costs.DIRECT),
    Algorithm("ring", ALL_REDUCE, ring.all_reduce, REORDERS, costs.RING_TWICE),
    Algorithm("bidirectional_ring", ALL_REDUCE, two_way.all_reduce, REORDERS, costs.RING_TWICE, parts=2),
    Algorithm("direct", ALL_REDUCE, direct.all_reduce, cost=costs.DIRECT_TWICE),
    Algorithm("recursive_doubling", ALL_REDUCE, doubling.all_reduce, cost=costs.DOUBLING),
    Algorithm("rabenseifner", ALL_REDUCE, rabenseifner.all_reduce, REORDERS, costs.RABENSEIFNER),
    Algorithm("tree", ALL_REDUCE, tree.all_reduce, cost=costs.TREE),
    two_level.on_hosts_of(2),
    two_level.on_hosts_of(4),
    Algorithm("binomial", BROADCAST, tree.broadcast, cost=costs.BROADCAST),
    Algorithm("chain", BROADCAST, chain.broadcast, cost=costs.CHAIN),
    Algorithm("scatter_all_gather", BROADCAST, in_two.broadcast, cost=costs.SCATTER_ALL_GATHER),
    Algorithm("binomial", REDUCE, tree.reduce, REORDERS, costs.REDUCE),
    Algorithm("ordered_binomial", REDUCE, tree.ordered_reduce, cost=costs.ORDERED_REDUCE),
    Algorithm("ring_gather", REDUCE, in_two.reduce, REORDERS, costs.RING_GATHER),
    Algorithm("binomial", GATHER, tree.gather, cost=costs.GATHER),
    Algorithm("direct", GATHER, direct.gather, cost=costs.DIRECT_GATHER, own_sizes=True),
    Algorithm("binomial", SCATTER, tree.scatter, cost=costs.LOG),
    Algorithm("direct", SCATTER, direct.scatter, cost=costs.DIRECT, own_sizes=True),
    Algorithm("pairwise", ALL_TO_ALL, pairwise.all_to_all, cost=costs.RING, own_sizes=True),
    Algorithm("bruck", ALL_TO_ALL, bruck.all_to_all, cost=costs.BRUCK_ALL_TO_ALL),
    Algorithm("direct", ALL_TO_ALL, direct.all_to_all, cost=costs.DIRECT, own_sizes=True),
    Algorithm("dissemination", BARRIER, dissemination.barrier, cost=costs.LOG),
    Algorithm("recursive_doubling", SCAN, prefix.scan, cost=costs.SCAN),
    Algorithm("recursive_doubling", EXSCAN, prefix.exscan, cost=costs.EXSCAN),
)

ALGORITHMS = {(algorithm.name, algorithm.collective.name): algorithm for algorithm in _TABLE}


def find_algorithm(name: str | Algorithm | None, collective: str) -> Algorithm:
    """The algorithm of that name for that collective, or the one given; ValueError names those that exist.

    None is the first of the table.
    """
    if not isinstance(collective, str) or collective not in COLLECTIVES:
        raise ValueError(f"no collective {collective!r}: there are {', '.join(COLLECTIVES)}")
    if name is None:
        return next(one for one in _TABLE if one.collective.name == collective)
    if isinstance(name, Algorithm):
        if name.collective.name != collective:
            raise ValueError(f"{name} is not an algorithm for {collective}")
        if not _is_ours(name.collective):
            raise ValueError(f"{name} has a promise of its own: make it with the one of promises.py")
        return name
    if not isinstance(name, str) or (name, collective) not in ALGORITHMS:
        known = ", ".join(n for n, c in ALGORITHMS if c == collective)
        raise ValueError(f"no algorithm {name!r} for {collective}: there are {known}")
    return ALGORITHMS[name, collective]


def _is_ours(promise: Collective) -> bool:
    ours = COLLECTIVES[promise.name]
    return promise == (ours if promise.root is None or ours.root is None else ours.at(promise.root))


def at_root(algorithm: Algorithm, root: Any, world_size: int) -> Algorithm:
    """The algorithm for this root; ValueError if it is no rank, or the collective has no root."""
    if not hasattr(root, "__index__") or not 0 <= index(root) < world_size:
        raise ValueError(
            f"{algorithm.collective.name} with root {root!r} on {world_size} ranks: name one of them"
        )
    return algorithm.at(index(root))


def check_limit(algorithm: Algorithm, world_size: int) -> None:
    """ValueError if the algorithm is not for so many ranks; it names those of the table that would do."""
    if not algorithm.limit.allows(world_size):
        would_do = _those(algorithm, lambda other: other.limit.allows(world_size))
        words = algorithm.limit.words
        raise ValueError(
            f"{algorithm} needs a world size that is {words}, and {world_size} is not: take {would_do}"
        )


def check_knows_sizes(algorithm: Algorithm, unknown: object) -> None:
    """ValueError if the size of a block that is not known here must be, with those that would do without."""
    if not algorithm.own_sizes:
        would_do = _those(algorithm, lambda other: other.own_sizes) or "none"
        raise ValueError(
            f"{algorithm} needs the sizes of all blocks, and that of {unknown} is None: take {would_do}"
        )


def check_commutes(algorithm: Algorithm, operator: str) -> None:
    """ValueError if the algorithm is not for an operator that does not commute, with those that would do."""
    if algorithm.commutative_only:
        would_do = _those(algorithm, lambda other: not other.commutative_only)
        raise ValueError(
            f"{algorithm} reorders its operands, and {operator!r} does not commute: take {would_do}"
        )


def _those(algorithm: Algorithm, suit: Callable[[Algorithm], bool]) -> str:
    others = (other for other in ALGORITHMS.values() if other.collective.name == algorithm.collective.name)
    return ", ".join(other.name for other in others if suit(other))
