"""One rank that calls something else is an error on all of them, and names both sides."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from collectives.algorithms import Algorithm, ring
from collectives.call_check import CallMismatchError
from collectives.communicator import Communicator
from collectives.ledger import Ledger
from collectives.operators import Operator
from collectives.promises import ALL_REDUCE
from collectives.work import Work


def call(comm: Communicator, count: int = 8, dtype: str = "int64", **how: Any) -> Work:
    return comm.all_reduce(np.ones(count, dtype), np.empty(count, dtype), **how)


def gather(comm: Communicator) -> Work:
    return comm.all_gather(np.ones(1), np.empty(comm.world_size))


def in_chunks(comm: Communicator) -> Work:
    comm.chunk_bytes = 8
    return call(comm, count=8 * comm.world_size)


MAX = Operator("my_max", np.maximum)
TWIN = Algorithm("twin", ALL_REDUCE, ring.all_reduce, commutative_only=True)
DIFFERENCES: dict[str, tuple[Callable[[Communicator], Work], Callable[[Communicator], Work], str, str]] = {
    "count": (call, lambda comm: call(comm, 9), "of 8 elements", "of 9 elements"),
    "dtype": (call, lambda comm: call(comm, dtype="float64"), "int64", "float64"),
    "byte order": (
        lambda comm: call(comm, dtype="int32"),
        lambda comm: call(comm, dtype=">i4"),
        r"int32",
        r">i4",
    ),
    "operator": (call, lambda comm: call(comm, operator="max"), "sum", "max"),
    "user's operator": (call, lambda comm: call(comm, operator=MAX), "sum", "my_max"),
    "collective": (call, gather, r"all_reduce\(", r"all_gather\("),
    "algorithm": (call, lambda comm: call(comm, algorithm=TWIN), "ring", "twin"),
    "sizes": (
        call,
        lambda comm: call(comm, sizes=(8,) + (0,) * (comm.world_size - 1)),
        "in blocks of [1-4],",
        "in blocks of 8, 0",
    ),
    "chunks": (
        lambda comm: call(comm, count=8 * comm.world_size),
        in_chunks,
        "elements, in blocks",
        "elements in 8 chunks each",
    ),
}


@pytest.mark.ranks(min=2)
@pytest.mark.few_sizes
@pytest.mark.parametrize("what", DIFFERENCES)
def test_a_difference_on_one_rank_is_an_error_on_all_that_names_both_sides(run_ranks, what: str) -> None:
    usual, other, usual_text, other_text = DIFFERENCES[what]

    def body(comm: Communicator) -> str:
        odd = comm.world_size - 1
        call(comm).wait()
        work = (other if comm.rank == odd else usual)(comm)
        message = (
            f"call #1 differs between ranks: rank 0 calls .*{usual_text}.*, rank {odd} calls .*{other_text}"
        )
        with pytest.raises(CallMismatchError, match=message) as caught:
            work.wait()
        return str(caught.value)

    assert len(set(run_ranks(body))) == 1


@pytest.mark.ranks(min=2)
def test_a_difference_beyond_the_text_of_a_record_is_found_too(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        sizes = [10**15 + 7] * comm.world_size  # long numbers, so that the text is cut
        sizes[-1] -= comm.rank == 1
        from collectives.algorithms import find_algorithm
        from collectives.call_check import RECORD_BYTES, describe

        name = find_algorithm("ring", "all_reduce")
        record = describe(name, "sum" * 30, np.dtype("int64"), tuple(sizes), 1)
        assert len(record) == RECORD_BYTES
        records = comm.exchange(record)
        assert records[0][8:] == records[1][8:]
        assert records[0] != records[1]

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_a_difference_beyond_the_text_of_a_record_is_said_to_be_there(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        collective = "sum" * 40
        mine = Operator(collective, np.add)
        sizes = [1] * comm.world_size
        total = comm.world_size
        if comm.rank == 1:
            sizes[0], sizes[1] = 2, 0
        given = np.ones(total)
        with pytest.raises(CallMismatchError, match="differ in a block whose size is beyond these texts"):
            comm.all_reduce(given, np.empty(total), sizes=sizes, operator=mine).wait()

    run_ranks(body)


@pytest.mark.parametrize("num_calls", [1, 3])
def test_the_check_costs_128_control_bytes_a_peer_and_call(run_metered, num_calls: int) -> None:
    def body(comm: Communicator, ledger: Ledger) -> None:
        for _ in range(num_calls):
            call(comm).wait()
        assert ledger.sent("control") == num_calls * 128 * (comm.world_size - 1)

    run_metered(body)


def test_without_the_check_no_control_byte_is_sent(run_metered) -> None:
    def body(comm: Communicator, ledger: Ledger) -> None:
        call(comm).wait()
        assert ledger.sent("control") == 0

    run_metered(body, check=False)


@pytest.mark.ranks(min=2)
def test_a_rank_that_cannot_make_the_call_tells_the_others(run_ranks) -> None:
    def body(comm: Communicator) -> str:
        output = np.zeros(5 if comm.rank == 1 else 6)
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - the messages are compared below
            comm.all_reduce(np.zeros(6), output).wait()
        return str(raised.value)

    messages = run_ranks(body, time_limit=10)
    own = "ring all_reduce: the blocks need 6 elements of input and 6 of output, there are 6 and 5"
    assert messages.pop(1) == own
    told = "call #0 differs between ranks: rank 0 calls all_reduce(sum, float64, ring) of 6 elements"
    for message in messages:
        assert message.startswith(told)
        assert "rank 1 calls all_reduce, but cannot: ring all_reduce: the blocks need 6" in message


@pytest.mark.ranks(min=2)
def test_whatever_keeps_a_rank_from_its_call_is_told_to_the_others(run_ranks) -> None:
    class Odd(list[int]):
        def __iter__(self) -> Iterator[int]:
            raise MemoryError("no room for \udc80")

    def body(comm: Communicator) -> None:
        sizes = Odd() if comm.rank == 1 else None
        error: Any = MemoryError if comm.rank == 1 else CallMismatchError
        with pytest.raises(error, match="no room" if comm.rank == 1 else "cannot: MemoryError: no room"):
            comm.all_reduce(np.zeros(6), np.zeros(6), sizes=sizes).wait()

    run_ranks(body, time_limit=10)
