"""The table of collectives to measure: how the arrays of each are made and how its bandwidth is counted.

Sizes and bus bandwidths are those of nccl-tests (its doc/PERFORMANCE.md): the size is that of the largest
array, and the factor makes of size over time the bytes that the busiest rank must send or receive. Scans
are not in it: they count as a reduce does. Rank 0 is the root.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collectives.bench import block_trials as blocks
from collectives.bench import whole_trials as wholes
from collectives.bench.trials import Trial
from collectives.bench.values import Values

MakeTrial = Callable[[Values, int, int], Trial]
"""(values, rank, count) to the arrays of one rank."""


@dataclass(frozen=True)
class Subject:
    """A collective, out of place and in place.

    ``by_blocks``: whether ``count`` is of the elements of a rank's block, and not of the whole array.
    ``empty``: whether it moves no numbers, and so has one size.
    """

    collective: str
    bus_factor: Callable[[int], float]
    placements: dict[str, MakeTrial]
    by_blocks: bool = False
    empty: bool = False

    def counts(self, sizes: Sequence[int], itemsize: int, world_size: int) -> list[int]:
        """The elements that make up each size in bytes, or the most below. ValueError if there are none."""
        if self.empty:
            return [0]
        least = self.num_bytes(1, itemsize, world_size)
        for size in sizes:
            if size < least:
                raise ValueError(
                    f"{self.collective} of {size} bytes on {world_size} ranks: give {least} or more"
                )
        return [size // least for size in sizes]

    def num_bytes(self, count: int, itemsize: int, world_size: int) -> int:
        """The size that nccl-tests would print."""
        return count * itemsize * (world_size if self.by_blocks else 1)


def _one(p: int) -> float:
    return 1


def _others(p: int) -> float:
    return (p - 1) / p


def _twice(p: int) -> float:
    return 2 * (p - 1) / p


APART, TOGETHER = "out-of-place", "in-place"
"""How input and output are placed, in the words of nccl-tests."""


def _both(out_of_place: MakeTrial, in_place: MakeTrial) -> dict[str, MakeTrial]:
    return {APART: out_of_place, TOGETHER: in_place}


def _by_blocks(name: str, out_of_place: MakeTrial, in_place: MakeTrial) -> Subject:
    return Subject(name, _others, _both(out_of_place, in_place), by_blocks=True)


_TABLE = (
    _by_blocks("all_gather", blocks.all_gather, blocks.all_gather_in_place),
    _by_blocks("reduce_scatter", blocks.reduce_scatter, blocks.reduce_scatter_in_place),
    Subject("all_reduce", _twice, _both(wholes.all_reduce, wholes.all_reduce_in_place)),
    Subject("broadcast", _one, {TOGETHER: wholes.broadcast}),
    Subject("reduce", _one, _both(wholes.reduce, wholes.reduce_in_place)),
    _by_blocks("gather", blocks.gather, blocks.gather_in_place),
    _by_blocks("scatter", blocks.scatter, blocks.scatter_in_place),
    _by_blocks("all_to_all", blocks.all_to_all, blocks.all_to_all_in_place),
    Subject("scan", _one, _both(wholes.scan, wholes.scan_in_place)),
    Subject("exscan", _one, _both(wholes.exscan, wholes.exscan_in_place)),
    Subject("barrier", _one, {APART: wholes.barrier}, empty=True),
)

SUBJECTS = {subject.collective: subject for subject in _TABLE}
