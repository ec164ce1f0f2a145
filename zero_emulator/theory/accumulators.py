"""Full gradients of chunks that are held at once while their runs are reduced, one after the other."""

from collections.abc import Sequence
from itertools import pairwise


def most_accumulated(sizes: Sequence[int]) -> int:
    """Elements of the two largest accumulators that are alive at once, given those of all runs in turn.

    A run's accumulator is there until the run after the next one needs its slot: so two that follow one
    another are alive, or the only one.

    >>> most_accumulated([5, 3, 1, 6]), most_accumulated([5])
    (8, 5)
    """
    return max(map(sum, pairwise((0, *sizes))), default=0)
