"""From samples to figures: one line of the report for each contender, size and placement."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Figures:
    """A contender at one size, in place or not. Times in seconds, bandwidths in bytes a second."""

    collective: str
    placement: str
    num_bytes: int
    count: int
    dtype: str
    operator: str | None
    algorithm: str  # as asked for
    ran: str  # what "auto" has chosen
    seconds: float  # the median
    seconds_p99: float
    algorithm_bandwidth: float
    bus_bandwidth: float
    of_copy_limit: float
    over_mpi: float | None  # the median of the ratios of pairs
    wrong: int
    sent: int | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def bandwidths(num_bytes: int, seconds: float, bus_factor: float) -> tuple[float, float]:
    """algbw and busbw as nccl-tests defines them, in bytes a second.

    >>> bandwidths(1_000_000, 0.001, 0.75)
    (1000000000.0, 750000000.0)
    """
    return num_bytes / seconds, num_bytes / seconds * bus_factor


def p99(seconds: Sequence[float]) -> float:
    """The time that 99 of 100 do not exceed: of fewer than 100 the longest.

    >>> p99([0.5, 3.0, 1.0]), p99(range(1, 201))
    (3.0, 198)
    """
    return sorted(seconds)[ceil(0.99 * len(seconds)) - 1]


def ratio_of_pairs(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median over rounds of one time over the other: what slows down a whole round does not count.

    >>> ratio_of_pairs([1.0, 9.0, 3.0], [2.0, 6.0, 3.0])
    1.0
    """
    return median(one / other for one, other in zip(ours, theirs, strict=True))
