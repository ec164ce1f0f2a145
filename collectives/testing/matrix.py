"""The whole matrix of checks as one parametrized pytest function: a line in the test file of whoever asks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from collectives.algorithms import Algorithm, find_algorithm
from collectives.launching.launched import launched_size
from collectives.promises import COLLECTIVES
from collectives.testing.check_error import HIDES
from collectives.testing.checks import check_proof, check_run
from collectives.testing.ranks import RUN_RANKS
from collectives.user_file import is_user_file, load_algorithm

Named = str | Algorithm | Callable[..., Any]


def matrix(
    *algorithms: Named,
    collective: str | None = None,
    in_order: bool = False,
    world_sizes: Iterable[int] = range(1, 10),
    proved: Iterable[int] = range(1, 17),
    transports: Sequence[str] = ("threads",),
) -> Callable[..., None]:
    """A test function: each algorithm proved for ``proved`` world sizes, and run on each of ``world_sizes``.

    ``algorithms``: an Algorithm, a name of the table, FILE.py:FUNCTION, or a generator of (rank, world_size),
    of the ``collective`` of its name if none is named. ``in_order``: what is no Algorithm yet must keep its
    operands in rank order; otherwise it is for operators that commute. ``transports``: "threads",
    "processes", and "mpi", which takes the place of the others under an mpiexec, on as many ranks as it has
    started: ``mpiexec -n N python -m mpi4py -m pytest``.
    """
    import pytest  # here alone: the checks run without it

    sizes, sizes_proved = tuple(world_sizes), tuple(proved)
    cells = [
        cell
        for named in algorithms
        for cell in _cells(_find(named, collective, in_order), sizes, sizes_proved, transports)
    ]
    if not cells:
        raise ValueError("nothing to test: name an algorithm")
    parameters = [pytest.param(*cell, id="-".join(map(str, (*cell[:2], _words(cell[2]))))) for cell in cells]

    @pytest.mark.parametrize(("algorithm", "where", "world_size"), parameters)
    def test_algorithm(algorithm: Algorithm, where: str, world_size: Any) -> None:
        __tracebackhide__ = HIDES
        if where == PROOF:
            check_proof(algorithm, world_size)
        else:
            check_run(algorithm, world_size, RUN_RANKS[where])

    test: Callable[..., None] = test_algorithm
    return test


PROOF = "proof"

Cell = tuple[Algorithm, str, Any]
"""An algorithm, where it is put to the test, and the world size there: all of them for a proof."""


def _cells(
    algorithm: Algorithm, world_sizes: Sequence[int], proved: Sequence[int], transports: Sequence[str]
) -> Iterator[Cell]:
    for transport in transports:
        if transport not in RUN_RANKS:
            raise ValueError(f"no transport {transport!r}: there are {', '.join(RUN_RANKS)}")
    if not proved:
        raise ValueError("no world size to prove it for: name some, such as proved=range(1, 17)")
    if not any(map(algorithm.limit.allows, proved)):
        raise ValueError(
            f"{algorithm} is for no world size of {_words(proved)}: prove one that is {algorithm.limit.words}"
        )
    ranks = launched_size()
    if ranks is not None and "mpi" in transports:
        yield algorithm, "mpi", ranks
        return
    yield algorithm, PROOF, proved
    for transport in transports:
        if transport != "mpi":
            for world_size in world_sizes:
                yield algorithm, transport, world_size


def _words(world_size: int | Sequence[int]) -> str:
    return str(world_size) if isinstance(world_size, int) else f"{world_size[0]}to{world_size[-1]}"


def _find(named: Named, collective: str | None, in_order: bool) -> Algorithm:
    """The Algorithm that is meant. ValueError if nobody says what it is to do."""
    if isinstance(named, Algorithm):
        return find_algorithm(named, collective or named.collective.name)
    if isinstance(named, str) and is_user_file(named):
        return load_algorithm(named, collective, in_order)
    told = collective or getattr(named, "__name__", None)
    if told not in COLLECTIVES:
        raise ValueError(f"what is {named} to do? Say collective=, one of {', '.join(COLLECTIVES)}")
    if isinstance(named, str):
        return find_algorithm(named, told)
    if not callable(named):
        raise ValueError(f"{named!r} is no algorithm: give a function of (rank, world_size), or an Algorithm")
    name = getattr(named, "__name__", type(named).__name__)
    return Algorithm(name, COLLECTIVES[told], named, commutative_only=not in_order)
