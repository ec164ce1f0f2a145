"""What a reduction does with two operands, and in which order: NumPy's operators and the user's own."""

import operator as python_operator
from functools import reduce
from typing import Any

import numpy as np
import pytest

from collectives.algorithms import Algorithm
from collectives.communicator import IN_PLACE, Communicator
from collectives.operators import Operator


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
    run_ranks, chain: Algorithm, chunk_bytes: Any
) -> None:
    def body(comm: Communicator) -> None:
        count = comm.world_size + 3
        for in_place in (False, True):
            digits = np.full(count, comm.rank + 1)
            found = digits if in_place else np.empty_like(digits)
            argument: Any = IN_PLACE if in_place else digits
            comm.all_reduce(argument, found, operator=APPEND, algorithm=chain).wait()
            assert found.tolist() == [int("12345678"[: comm.world_size])] * count

    run_ranks(body, chunk_bytes=chunk_bytes)


@pytest.mark.parametrize(
    ("name", "combine", "message"),
    [
        (5, np.add, "an operator named 5: give it a text for a name"),
        ("mine", None, "operator 'mine' combines by None: give a function"),
    ],
)
def test_an_operator_without_a_name_or_a_function_is_not_made(name: Any, combine: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Operator(name, combine)
