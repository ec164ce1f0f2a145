"""The table of algorithms: a newcomer adds a generator in a file of its family, and one line here."""

from dataclasses import dataclass

from collectives.algorithms import ring
from collectives.promises import ALL_GATHER, ALL_REDUCE, COLLECTIVES, REDUCE_SCATTER, Collective
from collectives.schedule import MakeSchedule


@dataclass(frozen=True, eq=False)
class Algorithm:
    """A schedule with the promise it keeps and the limits it declares.

    Compared and hashed by identity: the engine looks plans up by it, in every call.
    """

    name: str
    collective: Collective
    schedule: MakeSchedule
    commutative_only: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.collective.name}"


_TABLE = (
    Algorithm("ring", ALL_GATHER, ring.all_gather),
    Algorithm("ring", REDUCE_SCATTER, ring.reduce_scatter, commutative_only=True),
    Algorithm("ring", ALL_REDUCE, ring.all_reduce, commutative_only=True),
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
