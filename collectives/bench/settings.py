"""What is to be measured, and whether it can be: said before any rank starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from collectives.algorithms import ALGORITHMS, Algorithm, check_limit, find_algorithm
from collectives.bench.subjects import SUBJECTS
from collectives.bench.values import find_dtype
from collectives.choice import AUTO
from collectives.choices_file import choices_in_use
from collectives.environment import machine_bytes

MPI, ALL = "mpi", "all"
"""MPI's own; every one of the table whose limit allows it."""

NOT_IN_MPI = ("float16", "bfloat16")


@dataclass(frozen=True)
class Settings:
    """The collectives by each of the algorithms, at each of the sizes in bytes."""

    collectives: Sequence[str]
    algorithms: Sequence[str]
    sizes: Sequence[int]
    dtype: str
    operator: str
    rounds: int
    warmup: int
    check: bool
    chunk_bytes: int | None
    time_limit: float
    own: Mapping[str, Algorithm] = field(default_factory=dict)  # FILE.py:FUNCTION, loaded

    def check_on(self, world_size: int, transport: str) -> None:
        """ValueError, in one line, if any of it cannot be measured on so many ranks."""
        if not isfinite(self.time_limit):  # what is not above 0 the option itself has refused
            raise ValueError(f"--time-limit {self.time_limit:g}: give a number of seconds above 0")
        if MPI in self.algorithms and transport != "mpi":
            raise ValueError(f"algorithm mpi over {transport}: leave it out, or take --transport mpi")
        if MPI in self.algorithms and self.dtype in NOT_IN_MPI:
            raise ValueError(
                f"MPI has no {self.dtype}: leave mpi out of --algorithm, or take another --dtype"
            )
        if AUTO in self.algorithms:
            choices_in_use()  # a file that is wrong is told now
        needed, has = 2 * max(self.sizes), machine_bytes()  # the largest array, and what is due in it
        if needed > has:
            raise ValueError(
                f"--sizes up to {max(self.sizes)} bytes: a rank needs {-(-needed // 10**9)} GB of memory or "
                f"more, this machine has {has // 10**9} GB: take less"
            )
        for collective in self.collectives:
            if collective not in SUBJECTS:
                raise ValueError(f"no collective {collective!r} to measure: there are {', '.join(SUBJECTS)}")
            SUBJECTS[collective].counts(self.sizes, find_dtype(self.dtype).itemsize, world_size)
            for _, algorithm in self.ours(collective, world_size):
                if algorithm != AUTO:
                    check_limit(find_algorithm(algorithm, collective), world_size)

    def ours(self, collective: str, world_size: int) -> list[tuple[str, str | Algorithm]]:
        """Our algorithms for one collective: the name of each that was asked for, and what it stands for."""
        found: dict[str, str | Algorithm] = {}
        for name in self.algorithms:
            if name == ALL:
                found |= {one: one for one in _allowed(collective, world_size)}
            elif name != MPI:
                found[name] = self.own.get(name, name)
        return list(found.items())

    def names(self, collective: str, world_size: int) -> list[str]:
        """What may stand in the report's column of algorithms."""
        names = [name for name, _ in self.ours(collective, world_size)]
        return names + [f"{AUTO}: {name}" for name in _allowed(collective, world_size) if AUTO in names]

    def as_json(self) -> dict[str, Any]:
        shown = ("dtype", "operator", "rounds", "warmup", "check", "chunk_bytes")
        return {name: getattr(self, name) for name in shown}


def _allowed(collective: str, world_size: int) -> list[str]:
    return [
        algorithm.name
        for algorithm in ALGORITHMS.values()
        if algorithm.collective.name == collective and algorithm.limit.allows(world_size)
    ]
