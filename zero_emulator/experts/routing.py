"""Who has chosen which expert, and what a capacity leaves of it: from the counts of all ranks alone."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from zero_emulator.layout import Array


@dataclass(frozen=True, eq=False)
class Routing:
    """The choices of a global micro-batch: samples by rank and expert, all (ranks, num_experts) of int64."""

    counts: Array
    kept: Array

    @property
    def dropped(self) -> Array:
        """Choices that found their expert full."""
        return np.asarray(self.counts - self.kept)

    @property
    def shares(self) -> Array:
        """The part of all choices that fell on each expert, before drops; zeros if there are none."""
        by_expert = self.counts.sum(axis=0)
        return np.asarray(by_expert / max(1, by_expert.sum()))


def alike(one: Routing | None, other: Routing | None) -> bool:
    """Whether both have the same in mind; None is somebody who has nothing in mind."""
    if one is None or other is None:
        return one is other
    return np.array_equal(one.counts, other.counts) and np.array_equal(one.kept, other.kept)


def route(counts: Array, top_k: int, capacity: float | None) -> Routing:
    """What every expert keeps of what chose it: so many samples at most, the first in the global order.

    ``counts`` (ranks, num_experts): how often each rank's samples chose each expert, ``top_k`` choices a
    sample; the samples lie in rank order. An expert takes at most ``capacity`` times its even share of the
    choices, rounded up. Source: Lepikhin et al., GShard, ICLR 2021, whose groups are one here.

    >>> route(np.array([[2, 1], [3, 0]]), top_k=1, capacity=1.0).kept.tolist()
    [[2, 1], [1, 0]]
    """
    if capacity is None:
        return Routing(counts, counts)
    choices, num_experts = int(counts.sum()), counts.shape[1]
    share = Fraction(choices, num_experts)
    room = min(choices, ceil(Fraction(str(capacity)) * share))  # as it is written: 1.1 of 10 rows are 11
    before = np.cumsum(counts, axis=0) - counts
    return Routing(counts, np.clip(room - before, 0, counts))
