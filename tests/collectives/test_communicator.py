"""Three collectives, every dtype, every odd count: the numbers, and nothing but the numbers."""

import contextlib
import operator as python_operator
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.algorithms import ALGORITHMS, Algorithm
from collectives.blocks import bounds, even_cut
from collectives.communicator import IN_PLACE, Communicator
from collectives.ledger import Label, Ledger
from collectives.operators import Operator
from collectives.promises import ALL_REDUCE
from collectives.schedule import Recv, Schedule, Send
from collectives.transports.base import Transport
from collectives.transports.delaying import DelayingTransport
from collectives.transports.in_flight import Tags
from collectives.transports.metered import MeteredTransport

Array = npt.NDArray[Any]

DTYPES = ("int32", "int64", "float32", "float64", "complex128", "uint8", "bool", "float16", ">i4")
GUARD, PATTERN = 64, 0xA5


class Guarded:
    """An array inside a larger one, whose other bytes must stay as they are."""

    def __init__(self, values: Array, read_only: bool = False) -> None:
        self.memory = np.full(values.nbytes + 2 * GUARD, PATTERN, np.uint8)
        self.array = self.memory[GUARD : GUARD + values.nbytes].view(values.dtype)
        self.array[...] = values
        self.array.flags.writeable = not read_only
        self.values = values.copy()

    def check_canaries(self) -> None:
        assert (self.memory[:GUARD] == PATTERN).all(), "written before the buffer"
        assert (self.memory[len(self.memory) - GUARD :] == PATTERN).all(), "written past the buffer"

    def check_unchanged(self) -> None:
        self.check_canaries()
        assert self.array.tobytes() == self.values.tobytes(), "the input was changed"


def data(rank: int, total: int, dtype: str) -> Array:
    """Small integers, so that sums are exact in every dtype."""
    return (np.arange(total) * 7 % 5 + rank % 3).astype(dtype)


def check_collective(
    comm: Communicator,
    collective: str,
    dtype: str,
    sizes: tuple[int, ...],
    in_place: bool,
    cut: bool,
    algorithm: str = "ring",
) -> bytes:
    total, own = sum(sizes), bounds(sizes)[comm.rank]
    inputs = [data(rank, total, dtype) for rank in range(comm.world_size)]
    places = bounds(sizes)
    if collective == "all_gather":
        whole = np.concatenate([inputs[rank][place] for rank, place in enumerate(places)])
    else:
        whole = reduce(np.add, inputs)
    expected = whole[own] if collective == "reduce_scatter" else whole
    given_part = inputs[comm.rank][own] if collective == "all_gather" else inputs[comm.rank]

    source = Guarded(given_part, read_only=True)
    if in_place:
        start = np.full(total, 99).astype(dtype) if collective == "all_gather" else inputs[comm.rank]
        result = Guarded(start)
        if collective == "all_gather":
            result.array[own] = given_part
    else:
        result = Guarded(np.full(expected.size, 99).astype(dtype))
    argument: Any = IN_PLACE if in_place else source.array
    call = getattr(comm, collective)
    call(argument, result.array, sizes=sizes if cut else None, algorithm=algorithm).wait()

    found = result.array[own] if in_place and collective == "reduce_scatter" else result.array
    assert found.tolist() == expected.tolist()
    result.check_canaries()
    source.check_unchanged()
    return b"" if collective == "reduce_scatter" else found.tobytes()


@pytest.mark.few_sizes
@pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])
@pytest.mark.parametrize("chunk_bytes", [None, 16])
@pytest.mark.parametrize(("name", "collective"), ALGORITHMS, ids=[f"{n}-{c}" for n, c in ALGORITHMS])
def test_every_algorithm_of_the_table_gives_the_exact_result(
    run_ranks, name: str, collective: str, chunk_bytes: int | None, in_place: bool
) -> None:
    def body(comm: Communicator) -> bytes:
        uneven = tuple(3 * (rank % 3) for rank in range(comm.world_size))
        for sizes in (uneven, (2,) * comm.world_size):
            result = check_collective(comm, collective, "float64", sizes, in_place, True, name)
        return result

    results = run_ranks(body, chunk_bytes=chunk_bytes, wrap=DelayingTransport)
    if collective != "reduce_scatter":
        assert len(set(results)) == 1


COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")


def odd_cuts(world_size: int) -> Iterator[tuple[int, ...]]:
    yield tuple(3 * (rank % 2) for rank in range(world_size))  # every second block is empty
    yield (0,) * (world_size - 1) + (11,)
    yield (11,) + (0,) * (world_size - 1)
    yield tuple(rank * rank for rank in range(world_size))


@pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_count_gives_the_exact_result_on_every_rank(run_ranks, collective: str, in_place: bool) -> None:
    def body(comm: Communicator) -> list[bytes]:
        cuts = [even_cut(count, comm.world_size) for count in (*range(comm.world_size + 2), 100)]
        results = [check_collective(comm, collective, "int64", sizes, in_place, cut=False) for sizes in cuts]
        for sizes in odd_cuts(comm.world_size):
            results.append(check_collective(comm, collective, "float32", sizes, in_place, cut=True))
        return results

    results = run_ranks(body, check=False)
    assert len(set(map(tuple, results))) == 1, "ranks differ"


@pytest.mark.few_sizes
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_gives_the_exact_result(run_ranks, dtype: str) -> None:
    def body(comm: Communicator) -> None:
        sizes = even_cut(comm.world_size + 1, comm.world_size)
        for collective in COLLECTIVES:
            for in_place in (False, True):
                check_collective(comm, collective, dtype, sizes, in_place, cut=False)

    run_ranks(body, check=False)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_thousand_elements_in_chunks(run_ranks, world_size: int, collective: str) -> None:
    def body(comm: Communicator) -> None:
        check_collective(comm, collective, "float64", even_cut(1000, world_size), False, cut=False)

    run_ranks(body, chunk_bytes=333, check=False)


@settings(max_examples=8)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=8, max_size=8),
    collective=st.sampled_from(COLLECTIVES),
    in_place=st.booleans(),
    chunk_bytes=st.sampled_from([None, 1, 8, 20]),
    seed=st.integers(0, 99),
)
@pytest.mark.ranks(min=2)
def test_any_cut_with_any_delay(
    run_ranks, world_size: int, sizes: list[int], collective: str, in_place: bool, chunk_bytes: Any, seed: int
) -> None:
    cut = tuple((sizes * world_size)[:world_size])

    def body(comm: Communicator) -> None:
        check_collective(comm, collective, "int32", cut, in_place, cut=True)

    run_ranks(body, check=False, chunk_bytes=chunk_bytes, wrap=lambda inner: DelayingTransport(inner, seed))


def test_all_reduce_gives_the_same_bits_on_every_rank_and_in_every_run(run_ranks) -> None:
    def body(comm: Communicator) -> list[bytes]:
        numbers = np.random.default_rng(comm.rank).standard_normal(1001).astype(np.float32)
        results = []
        for argument, output in ((numbers, np.empty_like(numbers)), (IN_PLACE, numbers.copy())):
            comm.all_reduce(argument, output).wait()
            results.append(output.tobytes())
        return results

    first = run_ranks(body)
    delayed = run_ranks(body, wrap=lambda inner: DelayingTransport(inner, 5), chunk_bytes=100)
    assert len({bits for results in first + delayed for bits in results}) == 1


def test_reduce_scatter_leaves_the_bits_that_all_reduce_would(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        numbers = np.random.default_rng(comm.rank).standard_normal(101)
        place = bounds(even_cut(101, comm.world_size))[comm.rank]
        whole, block = np.empty(101), np.empty(place.stop - place.start)
        comm.all_reduce(numbers, whole).wait()
        comm.reduce_scatter(numbers, block).wait()
        assert block.tobytes() == whole[place].tobytes()

    run_ranks(body)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("sum", python_operator.add), ("prod", python_operator.mul), ("max", max), ("min", min)],
)
def test_each_operator_is_what_it_says(run_ranks, name: str, expected: Any) -> None:
    def body(comm: Communicator) -> None:
        numbers = np.array([comm.rank + 1, -comm.rank, 3, comm.rank % 2])
        found = np.empty_like(numbers)
        comm.all_reduce(numbers, found, operator=name).wait()
        columns = zip(*([r + 1, -r, 3, r % 2] for r in range(comm.world_size)), strict=True)
        assert found.tolist() == [reduce(expected, column) for column in columns]

    run_ranks(body)


def test_an_operator_of_the_users_own(run_ranks) -> None:
    either = Operator("bitwise_or", np.bitwise_or)

    def body(comm: Communicator) -> None:
        found = np.empty(3, np.uint8)
        comm.all_reduce(np.full(3, 1 << comm.rank, np.uint8), found, operator=either).wait()
        assert found.tolist() == [2**comm.world_size - 1] * 3

    run_ranks(body)


def chain(rank: int, world_size: int) -> Schedule:
    blocks = tuple(range(world_size))
    if rank > 0:
        yield (Recv(rank - 1, blocks, "before"),)
    if rank < world_size - 1:
        yield (Send(rank + 1, blocks),)
        yield (Recv(rank + 1, blocks),)
    if rank > 0:
        yield (Send(rank - 1, blocks),)


KEEP_LEFT = Operator("left", lambda left, right, out: np.copyto(out, left), commutative=False)
APPEND = Operator("append", lambda left, right, out: np.copyto(out, left * 10 + right), commutative=False)


def test_an_operator_that_does_not_commute_is_refused_by_the_ring(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        for call in (comm.all_reduce, comm.reduce_scatter):
            with pytest.raises(
                ValueError, match=r"ring \w+ reorders its operands, and 'left' does not commute"
            ):
                call(np.ones(3), np.empty(3), operator=KEEP_LEFT)

    run_ranks(body)


@pytest.mark.parametrize("chunk_bytes", [None, 8])
def test_an_operator_that_does_not_commute_sees_its_operands_in_rank_order(
    run_ranks, chunk_bytes: Any
) -> None:
    in_order = Algorithm("chain", ALL_REDUCE, chain)

    def body(comm: Communicator) -> None:
        count = comm.world_size + 3
        for in_place in (False, True):
            digits = np.full(count, comm.rank + 1)
            found = digits if in_place else np.empty_like(digits)
            argument: Any = IN_PLACE if in_place else digits
            comm.all_reduce(argument, found, operator=APPEND, algorithm=in_order).wait()
            assert found.tolist() == [int("12345678"[: comm.world_size])] * count

    run_ranks(body, chunk_bytes=chunk_bytes)


def test_arrays_of_any_shape_are_seen_flat(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        matrix = np.arange(6).reshape(2, 3) + comm.rank
        found = np.empty((3, 2), matrix.dtype)
        comm.all_reduce(matrix, found).wait()
        assert found.reshape(-1).tolist() == [
            sum(number + rank for rank in range(comm.world_size)) for number in range(6)
        ]
        scalar = np.array(comm.rank)
        comm.all_reduce(IN_PLACE, scalar).wait()
        assert scalar == sum(range(comm.world_size))

    run_ranks(body)


def test_block_sizes_may_be_numpy_integers(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        sizes = np.arange(comm.world_size)
        output = np.empty(int(sizes.sum()), np.int64)
        comm.all_gather(np.full(comm.rank, comm.rank), output, sizes=sizes).wait()  # type: ignore[arg-type]
        assert output.tolist() == np.repeat(sizes, sizes).tolist()

    run_ranks(body)


@pytest.mark.parametrize("check", [True, False])
def test_works_of_equal_shape_in_flight_do_not_mix(run_ranks, check: bool) -> None:
    def body(comm: Communicator) -> None:
        chooses = np.random.default_rng(comm.rank)
        flights = []
        for number in range(8):
            numbers, found = np.full(9, 10**number) * (comm.rank + 1), np.zeros(9, np.int64)
            flights.append((number, comm.all_reduce(numbers, found), found))
        for place in chooses.permutation(len(flights)):
            number, work, found = flights[place]
            work.wait()
            assert found.tolist() == [10**number * sum(range(1, comm.world_size + 1))] * 9

    run_ranks(body, check=check, chunk_bytes=8, wrap=lambda inner: DelayingTransport(inner, 3))


def short_of_tags(inner: Transport) -> Transport:
    transport = DelayingTransport(inner, 11)
    transport.tags = Tags(30)
    return transport


def test_tags_start_again_without_meeting_a_work_in_flight(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        flights = []
        for number in range(20):
            numbers, found = np.full(comm.world_size, number), np.empty(comm.world_size, np.int64)
            flights.append((number, comm.all_reduce(numbers, found), found))
        order = np.random.default_rng(comm.rank).permutation(20)
        for number, work, found in (flights[place] for place in order):
            work.wait()
            assert found.tolist() == [number * comm.world_size] * comm.world_size

    run_ranks(body, wrap=short_of_tags, check=False)


def test_split_gives_the_ranks_of_a_color_a_communicator_of_their_own(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part = comm.split(comm.rank % 2, key=-comm.rank)
        assert part is not None
        members = [rank for rank in range(comm.world_size) if rank % 2 == comm.rank % 2][::-1]
        assert part.transport.members == tuple(members)
        assert part.world_size == len(members)
        assert members[part.rank] == comm.rank
        assert (part.time_limit, part.check, part.chunk_bytes) == (20, True, 16)
        found = np.empty(part.world_size, np.int64)
        work = part.all_gather(np.array([comm.rank]), found)
        everybody = np.empty(comm.world_size, np.int64)
        comm.all_gather(np.array([comm.rank]), everybody).wait()  # both in flight, same peers, same tags
        work.wait()
        assert found.tolist() == members
        assert everybody.tolist() == list(range(comm.world_size))

    run_ranks(body, chunk_bytes=16, wrap=lambda inner: DelayingTransport(inner, 7))


def test_a_split_of_a_split_keeps_the_ranks_of_the_world(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        upper = comm.split(0 if comm.rank >= comm.world_size // 2 else 1)
        assert upper is not None
        single = upper.split(upper.rank)
        assert single is not None
        assert single.transport.members == (comm.rank,)
        found = np.empty(2)
        single.all_reduce(np.ones(2), found).wait()
        assert found.tolist() == [1, 1]

    run_ranks(body)


def test_a_rank_without_a_color_is_in_no_part(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part = comm.split(None if comm.rank == 0 else 5)
        assert (part is None) == (comm.rank == 0)
        if part is not None:
            found = np.empty(1, np.int64)
            part.all_reduce(np.array([1]), found).wait()
            assert found == comm.world_size - 1

    run_ranks(body)


def test_exchange_gives_every_value_to_every_rank(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        for number in range(3):
            assert comm.exchange((number, comm.rank, "x" * comm.rank)) == [
                (number, rank, "x" * rank) for rank in range(comm.world_size)
            ]

    run_ranks(body)


def test_labels_reach_the_ledger_and_are_taken_back(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        label = Label("audit", 3, "forward", 1)
        with contextlib.suppress(ZeroDivisionError), comm.labelled(label):
            comm.all_reduce(np.ones(8), np.empty(8)).wait()
            raise ZeroDivisionError
        comm.all_reduce(np.ones(8), np.empty(8)).wait()
        labels = [entry.origin.call.label for entry in comm.transport.ledger.entries]  # type: ignore[attr-defined]
        half = len(labels) // 2
        assert set(labels[:half]) == {label}
        assert set(labels[half:]) == {Label()}

    run_ranks(body, check=False, wrap=lambda inner: MeteredTransport(inner, Ledger()))


@pytest.mark.parametrize("world_size", [64])
def test_the_ring_runs_on_64_ranks(run_ranks, world_size: int) -> None:
    def body(comm: Communicator) -> bytes:
        found = np.empty(100, np.int64)
        comm.all_reduce(np.arange(100) + comm.rank, found).wait()
        assert found.tolist() == [64 * number + 2016 for number in range(100)]
        return found.tobytes()

    assert len(set(run_ranks(body, check=False))) == 1
