"""The algorithms that training's collectives run on, and what each sends and holds.

A ring goes by its closed forms. What any other one sends is what its proof says, and what it works in is what
its plan says: so it is known to the byte for whatever algorithm a user brings.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from collectives.algorithms import ALGORITHMS, Algorithm, find_algorithm
from collectives.offsets import bind
from collectives.schedule import Block, ScheduleError
from collectives.user_file import is_user_file, load_algorithm
from collectives.verify import Proof, verify
from zero_emulator import theory
from zero_emulator.theory import Flow, Sizes

CALLED = ("all_gather", "reduce_scatter", "all_reduce")
"""What training calls, in one strategy or another."""


@dataclass(frozen=True)
class Chosen:
    """An algorithm for each of them."""

    algorithms: Mapping[str, Algorithm]

    def is_ring(self, collective: str) -> bool:
        """Whether the closed forms of the ring hold for it."""
        return self.algorithms[collective] is ALGORITHMS["ring", collective]

    def flow(self, collective: str, sizes: Sizes, rank: int) -> Flow:
        """Elements that a rank sends and receives in a call."""
        if self.is_ring(collective):
            return theory.ring_flow(collective, sizes, rank)
        return _proved_flow(self.algorithms[collective], sizes, rank)

    def scratch(self, collective: str, sizes: Sizes, rank: int, *, in_place: bool) -> int:
        """Elements that a call works in beside the caller's buffers."""
        if self.is_ring(collective):
            return theory.ring_scratch(collective, sizes, rank, in_place=in_place)
        return _planned_scratch(self.algorithms[collective], sizes, rank, in_place)

    def check(self, world_size: int) -> None:
        """ValueError unless each of them is for so many ranks, and proved on them."""
        for collective, algorithm in self.algorithms.items():
            try:
                if not self.is_ring(collective):
                    _proof(algorithm, world_size)
            except ScheduleError as error:
                raise ValueError(f"--algorithm is refuted: {error}") from error


@cache
def choose(asked: tuple[str, ...]) -> Chosen:
    """What was asked for, later words over earlier ones, and rings for the rest. ValueError if there is none.

    Each a name of the table, for what it is there for, or FILE.py:FUNCTION, which is an Algorithm or named as
    its collective; ``COLLECTIVE=`` before either says what it is for.
    """
    algorithms = {name: ALGORITHMS["ring", name] for name in CALLED}
    for one in asked:
        algorithms |= named(one)
    return Chosen(algorithms)


@cache
def named(asked: str) -> dict[str, Algorithm]:
    """The algorithms that one word asks for, by collective. A file is run once, however often it is named."""
    first, equals, second = asked.partition("=")
    collective, name = (first, second) if equals else ("", asked)
    if equals and collective not in CALLED:
        raise ValueError(f"--algorithm {asked}: training calls {', '.join(CALLED)}, no {collective!r}")
    if is_user_file(name):
        algorithm = load_algorithm(name, collective or None, say=f"COLLECTIVE={name}")
        if algorithm.collective.name not in CALLED:
            raise ValueError(
                f"--algorithm {asked}: training calls {', '.join(CALLED)}, and this is {algorithm}"
            )
        return {algorithm.collective.name: algorithm}
    if collective:
        return {collective: find_algorithm(name, collective)}
    found = {one: ALGORITHMS[name, one] for one in CALLED if (name, one) in ALGORITHMS}
    if not found:
        known = ", ".join(dict.fromkeys(other for other, one in ALGORITHMS if one in CALLED))
        raise ValueError(f"--algorithm {asked}: there are {known}, or write COLLECTIVE=FILE.py:FUNCTION")
    return found


def no_rings(asked: Iterable[str]) -> str:
    """Of the words that ask for algorithms, those that ask for another than the ring."""
    return ", ".join(one for one in asked if one.rpartition("=")[2] != "ring")


@cache
def _proof(algorithm: Algorithm, world_size: int) -> Proof:
    return verify(algorithm, world_size)


@cache
def _proved_flow(algorithm: Algorithm, sizes: Sizes, rank: int) -> Flow:
    proof, size_of = _proof(algorithm, len(sizes)), algorithm.block_sizes(sizes)

    def elements(blocks: Sequence[Block]) -> int:
        return sum(size_of[block] or 0 for block in blocks)

    return Flow(elements(proof.sent[rank]), elements(proof.received[rank]))


@cache
def _planned_scratch(algorithm: Algorithm, sizes: Sizes, rank: int, in_place: bool) -> int:
    return bind(algorithm, rank, sizes, 1, in_place, 1).scratch_size
