"""The arrays of collectives whose ``count`` is of the whole array; the root is rank 0."""

import numpy as np

from collectives.bench.trials import EVERYWHERE, Trial, apart, together
from collectives.bench.values import Values


def all_reduce(values: Values, rank: int, count: int) -> Trial:
    return apart(values.given(rank, count), values.reduced(0, count))


def all_reduce_in_place(values: Values, rank: int, count: int) -> Trial:
    return together(count, EVERYWHERE, values.given(rank, count), EVERYWHERE, values.reduced(0, count))


def broadcast(values: Values, rank: int, count: int) -> Trial:
    """Read on the root, written elsewhere: there is one array."""
    sent = values.given(0, count)
    return together(count, EVERYWHERE, None if rank else sent, EVERYWHERE, sent)


def reduce(values: Values, rank: int, count: int) -> Trial:
    return apart(values.given(rank, count), None if rank else values.reduced(0, count))


def reduce_in_place(values: Values, rank: int, count: int) -> Trial:
    return (reduce if rank else all_reduce_in_place)(values, rank, count)


def scan(values: Values, rank: int, count: int) -> Trial:
    return apart(values.given(rank, count), values.reduced(0, count, ranks=rank + 1))


def scan_in_place(values: Values, rank: int, count: int) -> Trial:
    due = values.reduced(0, count, ranks=rank + 1)
    return together(count, EVERYWHERE, values.given(rank, count), EVERYWHERE, due)


def exscan(values: Values, rank: int, count: int) -> Trial:
    """Rank 0 gets nothing."""
    return apart(values.given(rank, count), values.reduced(0, count, ranks=rank) if rank else None)


def exscan_in_place(values: Values, rank: int, count: int) -> Trial:
    if not rank:
        return exscan(values, rank, count)
    due = values.reduced(0, count, ranks=rank)
    return together(count, EVERYWHERE, values.given(rank, count), EVERYWHERE, due)


def barrier(values: Values, rank: int, count: int) -> Trial:
    """No numbers, and so none that could be wrong."""
    return apart(np.empty(0, np.uint8), np.empty(0, np.uint8))
