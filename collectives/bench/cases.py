"""The table of collectives to measure: each says how its arrays are made and how its bandwidth is counted.

Sizes and bus bandwidths are those of nccl-tests (its doc/PERFORMANCE.md): the size is that of the largest
array, and the factor makes of size over time the bytes that the busiest rank must send or receive.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from collectives.arguments import IN_PLACE, Array
from collectives.bench.trials import Trial
from collectives.bench.values import Values

MakeTrial = Callable[[Values, int, int], Trial]
"""(values, rank, count) to the arrays of one rank."""


@dataclass(frozen=True)
class Case:
    """A collective, out of place and in place.

    ``by_blocks``: whether ``count`` is of the elements of a rank's block, and not of the whole array.
    """

    collective: str
    by_blocks: bool
    reduces: bool
    bus_factor: Callable[[int], float]
    placements: dict[str, MakeTrial]

    def count(self, num_bytes: int, itemsize: int, world_size: int) -> int:
        """The elements that make up ``num_bytes``, or the most below. ValueError if there would be none."""
        least = itemsize * (world_size if self.by_blocks else 1)
        if num_bytes < least:
            raise ValueError(
                f"{self.collective} of {num_bytes} bytes on {world_size} ranks: give {least} or more"
            )
        return num_bytes // least

    def num_bytes(self, count: int, itemsize: int, world_size: int) -> int:
        """The size that nccl-tests would print."""
        return count * itemsize * (world_size if self.by_blocks else 1)


def _all_gather(values: Values, rank: int, count: int) -> Trial:
    output, whole = _gathered(values, count)
    return Trial(values.given(rank, count), output, (), ((output, whole),))


def _all_gather_in_place(values: Values, rank: int, count: int) -> Trial:
    output, whole = _gathered(values, count)
    own = output[rank * count : (rank + 1) * count]
    return Trial(IN_PLACE, output, ((own, values.given(rank, count)),), ((output, whole),))


def _gathered(values: Values, count: int) -> tuple[Array, Array]:
    whole = np.concatenate([values.given(rank, count) for rank in range(values.world_size)])
    return np.empty_like(whole), whole


def _reduce_scatter(values: Values, rank: int, count: int) -> Trial:
    block = values.reduced(rank * count, count)
    output = np.empty_like(block)
    return Trial(values.given(rank, count * values.world_size), output, (), ((output, block),))


def _reduce_scatter_in_place(values: Values, rank: int, count: int) -> Trial:
    whole = values.given(rank, count * values.world_size)
    output, own = np.empty_like(whole), slice(rank * count, (rank + 1) * count)
    return Trial(IN_PLACE, output, ((output, whole),), ((output[own], values.reduced(own.start, count)),))


def _all_reduce(values: Values, rank: int, count: int) -> Trial:
    total = values.reduced(0, count)
    output = np.empty_like(total)
    return Trial(values.given(rank, count), output, (), ((output, total),))


def _all_reduce_in_place(values: Values, rank: int, count: int) -> Trial:
    total = values.reduced(0, count)
    output = np.empty_like(total)
    return Trial(IN_PLACE, output, ((output, values.given(rank, count)),), ((output, total),))


def _once(p: int) -> float:
    return (p - 1) / p


def _twice(p: int) -> float:
    return 2 * (p - 1) / p


OUT_OF_PLACE, INSIDE = "out-of-place", "in-place"

_TABLE = (
    Case("all_gather", True, False, _once, {OUT_OF_PLACE: _all_gather, INSIDE: _all_gather_in_place}),
    Case(
        "reduce_scatter", True, True, _once, {OUT_OF_PLACE: _reduce_scatter, INSIDE: _reduce_scatter_in_place}
    ),
    Case("all_reduce", False, True, _twice, {OUT_OF_PLACE: _all_reduce, INSIDE: _all_reduce_in_place}),
)

CASES = {case.collective: case for case in _TABLE}
