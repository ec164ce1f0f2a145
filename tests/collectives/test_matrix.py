"""The matrix can fail: every fault that is planted is refuted, by the check that is named for it."""

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectives import caller, engine, offsets, verify
from collectives.algorithms import Algorithm, Cost, direct, doubling, find_algorithm, ring
from collectives.algorithms.algorithm import POWER_OF_TWO
from collectives.launching.environment import job_environment
from collectives.operators import OPERATORS
from collectives.promises import ALL_GATHER, ALL_REDUCE, COLLECTIVES, REDUCE_SCATTER, SCATTER
from collectives.schedule import Recv, Schedule, Send
from collectives.testing import matrix
from collectives.testing.cases import DTYPES, MATRICES, UNORDERED, make_cases
from collectives.testing.check_error import CheckError
from collectives.testing.checks import check_proof, check_run
from collectives.testing.expected import DEFINITIONS
from collectives.testing.guards import CANARY
from collectives.testing.ranks import RUN_RANKS
from collectives.transports.base import Messages, Pending, Transport, TransportError, WrappedTransport
from collectives.transports.threads import run_threads

ROOT = Path(__file__).parents[2]

RING = find_algorithm("ring", "reduce_scatter")


def wrong_block(rank: int, world_size: int) -> Schedule:
    """Both ends are off by one in the same way, so every message meets its receive."""
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    for step in range(world_size - 1):
        yield Send(right, (rank - step,)), Recv(left, (rank - step,))


def forgetful(rank: int, world_size: int) -> Schedule:
    yield from list(ring.all_gather(rank, world_size))[:-1]


def on_powers_of_two(rank: int, world_size: int) -> Schedule:
    """Right where the ranks pair up; elsewhere some are left over."""
    for step in doubling.all_gather(rank, world_size):
        yield tuple(operation for operation in step if operation.peer < world_size)


def hanging(rank: int, world_size: int) -> Schedule:
    """Every rank waits until its neighbour has taken its block, which first waits for the next one."""
    yield (Send((rank + 1) % world_size, (rank,)),)
    yield (Recv((rank - 1) % world_size, ((rank - 1) % world_size,)),)


FOLDING = Algorithm("folding", ALL_GATHER, doubling.all_gather, limit=POWER_OF_TWO)

FAULTY = (
    Algorithm("wrong_block", ALL_GATHER, wrong_block),
    Algorithm("forgetful", ALL_GATHER, forgetful),
    Algorithm("on_powers_of_two", ALL_GATHER, on_powers_of_two),
    Algorithm("hanging", ALL_GATHER, hanging),
    Algorithm("ring_said_to_keep_the_order", REDUCE_SCATTER, ring.reduce_scatter),
    Algorithm(
        "ring_said_to_be_quicker", ALL_GATHER, ring.all_gather, cost=Cost(lambda p: 1, lambda p: p - 1)
    ),
)


@pytest.mark.parametrize("algorithm", FAULTY, ids=lambda algorithm: algorithm.name)
def test_a_faulty_schedule_is_refuted_by_the_proof_and_never_runs(algorithm: Algorithm) -> None:
    with pytest.raises(CheckError, match=f"^proof: {algorithm} on"):
        check_proof(algorithm, range(1, 17))
    with pytest.raises(CheckError, match=f"^proof: {algorithm} on 6 ranks"):
        check_run(algorithm, 6, lambda world_size, body: pytest.fail("it ran"))


def test_an_algorithm_for_powers_of_two_that_says_so_is_proved_on_those() -> None:
    check_proof(FOLDING, range(1, 17))


class Overrunning(WrappedTransport):
    """Writes a byte more than comes in."""

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Any) -> Pending:
        for _, data in recvs:
            behind = np.lib.stride_tricks.as_strided(data, (data.size + 1,))[-1:]
            behind[behind == CANARY] = 0  # and nothing else, which would show in the result
        return super().post(sends, recvs, tag, origin)

    def wrap(self, inner: Transport) -> Transport:
        return type(self)(inner)


class LosingTails(Overrunning):
    """Leaves the last byte of what comes in as it was."""

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Any) -> Pending:
        landing = [(peer, np.empty_like(data)) for peer, data in recvs]
        return recvs, landing, self._inner.post(sends, landing, tag, origin)

    def landed(self, pending: Pending) -> bool:
        recvs, landing, inner = pending
        if not self._inner.landed(inner):
            return False
        for (_, data), (_, landed) in zip(recvs, landing, strict=True):
            data[:-1] = landed[:-1]
        return True


class ChangingOldSends(Overrunning):
    """Writes into memory that it has sent from, when that is no longer its own."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.old: dict[int, Messages] = {}  # by the tag

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Any) -> Pending:
        for _, data in self.old.pop(tag, ()):
            data ^= 1
        if origin.step == 0:
            self.old[tag] = sends
        return self._inner.post(sends, recvs, tag, origin)


class ChangingSends(Overrunning):
    """Writes into memory that it sends from, before it says that it is done."""

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Any) -> Pending:
        return sends, self._inner.post(sends, recvs, tag, origin)

    def landed(self, pending: Pending) -> bool:
        sends, inner = pending
        if not self._inner.landed(inner):
            return False
        for _, data in sends:
            data ^= 1
        return True


class Failing(Overrunning):
    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Any) -> Pending:
        raise TransportError("the wire is cut")


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (Overrunning, "margins"),
        (LosingTails, "result"),
        (ChangingOldSends, "input"),
        (ChangingSends, "in flight"),
        (Failing, "run"),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_faulty_transport_is_refuted(faulty: type[Overrunning], check: str) -> None:
    def run_faulty(world_size: int, body: Callable[[Transport], Any]) -> list[Any]:
        return run_threads(world_size, lambda transport: body(faulty(transport)))

    with pytest.raises(CheckError, match=f"^{check}: ring reduce_scatter on "):
        check_run(RING, 3, run_faulty)


class Hasty(Overrunning):
    """Takes for landed what is only on its way."""

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Any) -> Pending:
        return self._inner.post(sends, recvs, tag, origin)

    def landed(self, pending: Pending) -> bool:
        return True


def test_a_barrier_that_a_rank_leaves_before_all_have_come_is_refuted() -> None:
    def run_hasty(world_size: int, body: Callable[[Transport], Any]) -> list[Any]:
        return run_threads(world_size, lambda transport: body(Hasty(transport)))

    with pytest.raises(CheckError, match=r"^barrier: dissemination barrier on 3 ranks, call \d: a rank left"):
        check_run(find_algorithm("dissemination", "barrier"), 3, run_hasty)


def rooted_at_0(rank: int, world_size: int, root: int) -> Schedule:
    """Pays no attention to who the root is."""
    yield from direct.scatter(rank, world_size, 0)


def test_an_algorithm_that_works_for_the_first_root_alone_is_refuted() -> None:
    algorithm = Algorithm("rooted_at_0", SCATTER, rooted_at_0)
    with pytest.raises(CheckError, match=r"^proof: rooted_at_0 scatter \(root 1\) on 2 ranks"):
        check_proof(algorithm, range(1, 17))
    with pytest.raises(CheckError, match=r"^proof: rooted_at_0 scatter \(root .\) on 3 ranks"):
        check_run(algorithm, 3, lambda world_size, body: pytest.fail("it ran"))


def test_what_fails_in_a_process_of_its_own_is_told_as_on_a_thread() -> None:
    run_processes = RUN_RANKS["processes"]

    def run_faulty(world_size: int, body: Callable[[Transport], Any]) -> list[Any]:
        return run_processes(world_size, lambda transport: body(LosingTails(transport)))

    check_run(RING, 2, run_processes)
    with pytest.raises(CheckError, match=r"^result: ring reduce_scatter on rank . of 2, blocks of "):
        check_run(RING, 2, run_faulty)


def test_an_engine_that_swaps_operands_is_refuted_by_an_operator_that_does_not_commute(monkeypatch) -> None:
    def swapped(rounds: Any, scratch: Any, output: Any, input: Any, operator: Any) -> Any:
        if operator is not None:
            combine = operator.combine
            operator = type(operator)("swapped", lambda left, right, *, out: combine(right, left, out=out))
        return engine.place(rounds, scratch, output, input, operator)

    check_run(find_algorithm("tree", "all_reduce"), 3, run_threads)
    monkeypatch.setattr(caller, "place", swapped)
    with pytest.raises(
        CheckError, match=r"^order: tree all_reduce on rank . of 3, blocks of 4, 8, 12 int64, mat"
    ):
        check_run(find_algorithm("tree", "all_reduce"), 3, run_threads)


def test_a_caller_that_lets_operands_be_reordered_is_refuted(monkeypatch) -> None:
    monkeypatch.setattr(caller, "check_operator", lambda algorithm, operator: None)
    with pytest.raises(
        CheckError, match=r"^order: ring reduce_scatter on rank . of 3 reorders operands, and"
    ):
        check_run(find_algorithm("ring", "reduce_scatter"), 3, run_threads)


def test_an_engine_that_runs_where_the_algorithm_says_it_does_not_is_refuted(monkeypatch) -> None:
    limited = Algorithm("limited", ALL_GATHER, ring.all_gather, limit=POWER_OF_TWO)
    check_run(limited, 3, run_threads)
    for module in (offsets, verify):
        monkeypatch.setattr(module, "check_limit", lambda algorithm, world_size: None)
    with pytest.raises(CheckError, match=r"^limit: limited all_gather ran on 3 ranks"):
        check_run(limited, 3, run_threads)


def each_from_its_own(rank: int, world_size: int) -> Schedule:
    """Every rank adds up all operands, beginning with its own: alike unless sums are rounded."""
    blocks = tuple(range(world_size))
    others = [peer % world_size for peer in range(rank + 1, rank + world_size)]
    yield tuple(op for peer in others for op in (Send(peer, blocks), Recv(peer, blocks, "after")))


def test_ranks_that_round_a_sum_in_different_ways_are_refuted() -> None:
    algorithm = Algorithm("each_from_its_own", ALL_REDUCE, each_from_its_own, commutative_only=True)
    with pytest.raises(CheckError, match=r"^alike: each_from_its_own all_reduce on 5 ranks"):
        check_run(algorithm, 5, run_threads)


def wasteful_on_ranks(rank: int, world_size: int) -> Schedule:
    """Sends its block twice, but not where the proof is made."""
    if threading.current_thread() is not threading.main_thread():
        yield from list(direct.all_gather(rank, world_size))
    yield from direct.all_gather(rank, world_size)


def test_an_algorithm_that_sends_more_than_its_proof_is_refuted() -> None:
    algorithm = Algorithm("wasteful", ALL_GATHER, wasteful_on_ranks)
    with pytest.raises(CheckError, match=r"^bytes: wasteful all_gather on rank . of 3, blocks of 1, 0, 0 "):
        check_run(algorithm, 3, run_threads)


def test_a_failed_check_says_the_same_on_every_rank_that_is_told_of_it() -> None:
    error = CheckError("bytes", "too many")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "bytes: too many"


def test_over_the_world_sizes_every_dtype_meets_every_operator_and_every_way_to_call() -> None:
    numbered = [one for world_size in range(1, 9) for one in enumerate(make_cases(world_size)[:-2])]
    cases, both = [case for _, case in numbered], (False, True)
    operators = {dtype: UNORDERED if dtype.kind == "c" else OPERATORS for dtype in DTYPES}
    assert {(case.dtype, case.operator.name) for case in cases} == {
        (dtype, name) for dtype in DTYPES for name in operators[dtype]
    }
    assert {(case.dtype, case.in_place, case.num_chunks) for case in cases} == set(
        product(DTYPES, both, (1, 3))
    )
    assert {(case.operator.name, case.in_place) for case in cases} == set(product(OPERATORS, both))
    assert {(cut, case.in_place) for cut, case in numbered} == set(product(range(8), both))
    assert {(cut, case.num_chunks) for cut, case in numbered} >= set(product((5, 6, 7), (1, 3)))


@pytest.mark.parametrize("world_size", range(1, 10))
def test_counts_go_from_none_to_one_more_than_ranks_and_to_many(world_size: int) -> None:
    counts = [sum(case.sizes) for case in make_cases(world_size)]
    assert {0, 1, world_size - 1, world_size, world_size + 1, 1000 * world_size + 1} <= set(counts)
    assert make_cases(world_size)[-2].operator is MATRICES


def test_every_collective_has_a_definition() -> None:
    assert list(DEFINITIONS) == list(COLLECTIVES)


NOTHING_TO_TEST: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "no collective": (
        (wrong_block,),
        {},
        r"what is .*wrong_block.* to do\? Say collective=, one of all_gather",
    ),
    "no name": (
        ("smoke",),
        {"collective": "scan"},
        "no algorithm 'smoke' for scan: there are recursive_doub",
    ),
    "no transport": ((RING,), {"transports": ("smoke",)}, "no transport 'smoke': there are threads, "),
    "no proof": (
        (FOLDING,),
        {"proved": (3, 5)},
        "folding all_gather is for no world size of 3to5: prove one that",
    ),
    "no world size": ((RING,), {"proved": ()}, "no world size to prove it for: name some"),
    "no function": ((7,), {"collective": "scan"}, "7 is no algorithm: give a function of"),
    "nothing": ((), {}, "nothing to test: name an algorithm"),
}


@pytest.mark.parametrize("why", NOTHING_TO_TEST)
def test_what_would_test_nothing_is_refused_with_the_way_out(why: str) -> None:
    algorithms, settings, told = NOTHING_TO_TEST[why]
    with pytest.raises(ValueError, match=told):
        matrix(*algorithms, **settings)


OWN = """
from collectives.testing import matrix
from mine import broken, all_gather

test_mine = matrix(all_gather, world_sizes=(1, 2, 3), transports=("threads", "mpi"))
test_broken = matrix(broken, collective="all_gather", world_sizes=(2,), transports=("threads", "mpi"))
"""

MINE = """
from collectives.algorithms.ring import all_gather

def broken(rank, world_size):
    yield from list(all_gather(rank, world_size))[: 7 - world_size]
"""


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., str]:
    """A project of somebody's own: what its pytest says, after the given words."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "test_mine.py").write_text(OWN)

    def project(*command: str) -> str:
        words = [*command, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."]
        environment = job_environment() | {"PYTHONPATH": os.pathsep.join([str(ROOT), "."])}
        ran = subprocess.run(
            words, capture_output=True, text=True, timeout=100, cwd=tmp_path, env=environment
        )
        return ran.stdout

    return project


def test_a_project_of_ones_own_needs_no_more_than_a_line_and_pytest(project) -> None:
    said = project(sys.executable)
    assert "5 passed" in said
    assert "FAILED test_mine.py::test_broken[broken all_gather-proof-1to16]" in said
    assert "CheckError: proof: broken all_gather on 5 ranks" in said


def test_under_an_mpiexec_the_matrix_runs_on_its_ranks(project) -> None:
    mpiexec = str(Path(sys.executable).with_name("mpiexec"))
    assert project(mpiexec, "-n", "2", sys.executable, "-m", "mpi4py").count("2 passed") == 2
