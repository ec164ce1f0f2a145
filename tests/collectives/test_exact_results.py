"""Three collectives, every dtype, every odd count: the numbers, and nothing but the numbers."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.blocks import bounds, even_cut
from collectives.communicator import IN_PLACE, Communicator
from collectives.transports.delaying import DelayingTransport

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
    call(argument, result.array, sizes=sizes if cut else None).wait()

    found = result.array[own] if in_place and collective == "reduce_scatter" else result.array
    assert found.tolist() == expected.tolist()
    result.check_canaries()
    source.check_unchanged()
    return b"" if collective == "reduce_scatter" else found.tobytes()


COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")


def odd_cuts(world_size: int) -> Iterator[tuple[int, ...]]:
    yield tuple(3 * (rank % 2) for rank in range(world_size))  # every second block is empty
    yield (0,) * (world_size - 1) + (11,)
    yield (11,) + (0,) * (world_size - 1)
    yield tuple(rank * rank for rank in range(world_size))


@pytest.mark.few_sizes
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


@pytest.mark.few_sizes
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


@pytest.mark.few_sizes
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


@pytest.mark.few_sizes
def test_reduce_scatter_leaves_the_bits_that_all_reduce_would(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        numbers = np.random.default_rng(comm.rank).standard_normal(101)
        place = bounds(even_cut(101, comm.world_size))[comm.rank]
        whole, block = np.empty(101), np.empty(place.stop - place.start)
        comm.all_reduce(numbers, whole).wait()
        comm.reduce_scatter(numbers, block).wait()
        assert block.tobytes() == whole[place].tobytes()

    run_ranks(body)


@pytest.mark.parametrize("world_size", [64])
def test_the_ring_runs_on_64_ranks(run_ranks, world_size: int) -> None:
    def body(comm: Communicator) -> bytes:
        found = np.empty(100, np.int64)
        comm.all_reduce(np.arange(100) + comm.rank, found).wait()
        assert found.tolist() == [64 * number + 2016 for number in range(100)]
        return found.tobytes()

    assert len(set(run_ranks(body, check=False))) == 1
