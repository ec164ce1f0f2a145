"""The table of algorithms: a newcomer adds a generator in a file of its family, and one line here."""

from collections.abc import Callable

from collectives.algorithms import (
    bruck,
    costs,
    direct,
    doubling,
    halving,
    neighbors,
    pairwise,
    pat,
    rabenseifner,
    ring,
    tree,
    two_level,
    two_way,
)
from collectives.algorithms.algorithm import EVEN, POWER_OF_TWO, Algorithm, Cost, Limit
from collectives.promises import ALL_GATHER, ALL_REDUCE, COLLECTIVES, REDUCE_SCATTER

__all__ = ["ALGORITHMS", "Algorithm", "Cost", "Limit", "check_commutes", "check_limit", "find_algorithm"]

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
    Algorithm("recursive_doubling", ALL_REDUCE, doubling.all_reduce, cost=costs.DOUBLING),
    Algorithm("rabenseifner", ALL_REDUCE, rabenseifner.all_reduce, REORDERS, costs.RABENSEIFNER),
    Algorithm("tree", ALL_REDUCE, tree.all_reduce, cost=costs.TREE),
    two_level.on_hosts_of(2),
    two_level.on_hosts_of(4),
)

ALGORITHMS = {(algorithm.name, algorithm.collective.name): algorithm for algorithm in _TABLE}


def find_algorithm(name: str | Algorithm, collective: str) -> Algorithm:
    """The algorithm of that name for that collective, or the one given; ValueError names those that exist."""
    if not isinstance(collective, str) or collective not in COLLECTIVES:
        raise ValueError(f"no collective {collective!r}: there are {', '.join(COLLECTIVES)}")
    if isinstance(name, Algorithm):
        if name.collective.name != collective:
            raise ValueError(f"{name} is not an algorithm for {collective}")
        if name.collective != COLLECTIVES[collective]:
            raise ValueError(f"{name} has a promise of its own: make it with the one of promises.py")
        return name
    if not isinstance(name, str) or (name, collective) not in ALGORITHMS:
        known = ", ".join(n for n, c in ALGORITHMS if c == collective)
        raise ValueError(f"no algorithm {name!r} for {collective}: there are {known}")
    return ALGORITHMS[name, collective]


def check_limit(algorithm: Algorithm, world_size: int) -> None:
    """ValueError if the algorithm is not for so many ranks; it names those of the table that would do."""
    if not algorithm.limit.allows(world_size):
        would_do = _those(algorithm, lambda other: other.limit.allows(world_size))
        words = algorithm.limit.words
        raise ValueError(
            f"{algorithm} needs a world size that is {words}, and {world_size} is not: take {would_do}"
        )


def check_commutes(algorithm: Algorithm, operator: str) -> None:
    """ValueError if the algorithm is not for an operator that does not commute, with those that would do."""
    if algorithm.commutative_only:
        would_do = _those(algorithm, lambda other: not other.commutative_only)
        raise ValueError(
            f"{algorithm} reorders its operands, and {operator!r} does not commute: take {would_do}"
        )


def _those(algorithm: Algorithm, suit: Callable[[Algorithm], bool]) -> str:
    others = (other for other in ALGORITHMS.values() if other.collective == algorithm.collective)
    return ", ".join(other.name for other in others if suit(other))
