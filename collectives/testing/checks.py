"""Every check of an algorithm, by name: plain functions that raise CheckError, and need no pytest.

proof       it keeps its promise, with operands in rank order unless it says otherwise, at its cost
limit       on a world size that is not among its own it refuses to run
order       an operator that does not commute has its operands in order, or is refused
result      every element is what the definition says, in and out of place, in chunks, of every dtype
input       is as it was
margins     of all buffers are as they were
in flight   no memory is written or awaited twice while messages use it
alike       a sum that is rounded has the same bits on every rank
barrier     nobody leaves one before all have come
bytes       counted are those of the proof, sent and received
run         nothing else was raised
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from collectives.algorithms import Algorithm
from collectives.schedule import ScheduleError
from collectives.testing.cases import make_cases
from collectives.testing.check_error import HIDES, CheckError
from collectives.testing.expected import make_parts
from collectives.testing.on_rank import CaseOnRanks, check_refused, make_calls, root_of
from collectives.transports.base import Transport
from collectives.verify import Proof, roots, verify

T = TypeVar("T")


class RunRanks(Protocol):
    """What ``body`` returns on each of so many ranks, as ``run_threads`` does."""

    def __call__(self, world_size: int, body: Callable[[Transport], T]) -> list[T]: ...


def check_proof(algorithm: Algorithm, world_sizes: Iterable[int]) -> None:
    """The algorithm is proved for each of these world sizes that is among its own, whoever the root is."""
    __tracebackhide__ = HIDES
    for world_size in world_sizes:
        if algorithm.limit.allows(world_size):
            _prove(algorithm, world_size, roots(algorithm, world_size))


def check_run(algorithm: Algorithm, world_size: int, run_ranks: RunRanks) -> None:
    """The algorithm does what it must on so many ranks, or refuses to run where it is not for so many."""
    __tracebackhide__ = HIDES
    if not algorithm.limit.allows(world_size):
        run_ranks(world_size, partial(check_refused, algorithm))
        return
    cases = make_cases(world_size, algorithm.parts)
    proofs = _prove(algorithm, world_size, {root_of(algorithm, case) for case in cases})
    calls = tuple(CaseOnRanks(case, make_parts(algorithm.collective.name, case)) for case in cases)
    ended = run_ranks(world_size, partial(make_calls, algorithm, proofs, calls))
    if algorithm.collective.name == "all_reduce" and len({one.last for one in ended}) > 1:
        raise CheckError("alike", f"{algorithm} on {world_size} ranks: a sum is rounded in different ways")
    if algorithm.collective.name == "barrier":
        _check_barrier(algorithm, [one.times for one in ended])


def _prove(algorithm: Algorithm, world_size: int, whoever: Iterable[int | None]) -> dict[int | None, Proof]:
    """Its proofs by root."""
    __tracebackhide__ = HIDES
    try:
        return {root: verify(algorithm.at(root), world_size) for root in whoever}
    except ScheduleError as error:
        raise CheckError("proof", str(error)) from None  # its traceback is the verifier's


def _check_barrier(algorithm: Algorithm, times: Sequence[Sequence[tuple[float, float]]]) -> None:
    for number, call in enumerate(zip(*times, strict=True)):
        came, left = max(entered for entered, _ in call), min(left for _, left in call)
        if left < came:
            raise CheckError(
                "barrier",
                f"{algorithm} on {len(times)} ranks, call {number}: a rank left {came - left:.6f} s before "
                "another came",
            )
