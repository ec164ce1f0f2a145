"""Every algorithm of the table, run: exact numbers, all kinds of cuts and dtypes, operands in their order."""

from collections.abc import Iterable
from functools import partial, reduce
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from collectives.algorithms import ALGORITHMS, Algorithm
from collectives.blocks import bounds, even_cut
from collectives.communicator import IN_PLACE, Communicator
from collectives.operators import Operator
from collectives.promises import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
from collectives.transports.delaying import DelayingTransport
from collectives.work import Work

Array = npt.NDArray[Any]


def cases(algorithms: Iterable[Algorithm], sizes: Iterable[int]) -> pytest.MarkDecorator:
    allowed = [(one, size) for one, size in product(algorithms, sizes) if one.limit.allows(size)]
    ids = [f"{algorithm}-{size}" for algorithm, size in allowed]
    return pytest.mark.parametrize(("algorithm", "world_size"), allowed, ids=ids)


CUTS = (
    lambda size: (2,) * size,
    lambda size: even_cut(2 * size + 1, size),
    lambda size: tuple(3 * (rank % 3) for rank in range(size)),  # with empty blocks
    lambda size: (0,) * (size - 1) + (3,),
)
DTYPES = ("int64", "float32", "uint8", "complex128")


class Flight:
    """One call of an algorithm with numbers whose result is known, from its start to its check."""

    def __init__(
        self, comm: Communicator, algorithm: Algorithm, sizes: tuple[int, ...], dtype: str, in_place: bool
    ) -> None:
        collective, own = algorithm.collective.name, bounds(sizes)[comm.rank]
        inputs = [(np.arange(sum(sizes)) * 7 % 5 + rank % 3).astype(dtype) for rank in range(len(sizes))]
        if collective == "all_gather":
            pieces = [inputs[rank][place] for rank, place in enumerate(bounds(sizes))]
            self.given, self.expected = pieces[comm.rank], np.concatenate(pieces)
        else:
            self.given, total = inputs[comm.rank], reduce(np.add, inputs)
            self.expected = total[own] if collective == "reduce_scatter" else total
        self.before = self.given.copy()
        self.result = np.full(
            max(self.given.size, self.expected.size) if in_place else self.expected.size, 99
        )
        self.result = self.result.astype(dtype)
        if in_place:
            self.result[own if collective == "all_gather" else slice(None)] = self.given
        self.view = self.result[own] if in_place and collective == "reduce_scatter" else self.result
        argument: Any = IN_PLACE if in_place else self.given
        call = getattr(comm, collective)
        self.work: Work = call(argument, self.result, sizes=sizes, algorithm=algorithm)

    def check(self) -> None:
        self.work.wait()
        assert self.view.tolist() == self.expected.tolist()
        assert self.given.tolist() == self.before.tolist(), "the input was changed"


THREE = [one for one in ALGORITHMS.values() if one.collective in (ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE)]


@cases(THREE, (1, 2, 3, 4, 5, 6, 8))
def test_every_algorithm_gives_the_exact_result_whatever_the_cut(
    run_ranks, world_size: int, algorithm: Algorithm
) -> None:
    chunk_bytes = 8 if world_size in (3, 6) else None

    def body(comm: Communicator) -> None:
        for dtype, cut in zip(DTYPES, CUTS, strict=True):
            two = [Flight(comm, algorithm, cut(world_size), dtype, in_place) for in_place in (False, True)]
            for flight in two if comm.rank % 2 else reversed(two):
                flight.check()

    run_ranks(body, check=False, chunk_bytes=chunk_bytes, wrap=DelayingTransport)


def multiply(left: Array, right: Array, /, *, out: Array) -> None:
    """Products of 2 by 2 matrices, which lie one after the other."""
    out[...] = (left.reshape(-1, 2, 2) @ right.reshape(-1, 2, 2)).reshape(-1)


MATRICES = Operator("matmul", multiply, commutative=False)


@cases((one for one in THREE if one.collective.reduces), (2, 3, 5, 8))
def test_an_algorithm_keeps_the_order_of_matrices_in_a_product_or_refuses_them(
    run_ranks, world_size: int, algorithm: Algorithm
) -> None:
    sizes = tuple(4 * (1 + rank % 3) for rank in range(world_size))
    inputs = [(np.arange(sum(sizes)) * 5 + rank * rank) % 4 for rank in range(world_size)]
    total = inputs[0].copy()
    for matrices in inputs[1:]:
        multiply(total, matrices, out=total)

    def body(comm: Communicator) -> None:
        scatters = algorithm.collective.name == "reduce_scatter"
        expected = total[bounds(sizes)[comm.rank]] if scatters else total
        found = np.empty_like(expected)
        call = partial(getattr(comm, algorithm.collective.name), inputs[comm.rank], found)
        how: dict[str, Any] = {"sizes": sizes, "operator": MATRICES, "algorithm": algorithm}
        if algorithm.commutative_only:
            with pytest.raises(ValueError, match="reorders its operands, and 'matmul' does not commute"):
                call(**how)
        else:
            call(**how).wait()
            assert found.tolist() == expected.tolist()

    run_ranks(body, check=False)
