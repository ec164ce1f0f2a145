"""The arrays of collectives whose ``count`` is of a rank's block; the root is rank 0."""

import numpy as np

from collectives.arguments import Array
from collectives.bench.trials import EVERYWHERE, Trial, apart, together
from collectives.bench.values import Values


def all_gather(values: Values, rank: int, count: int) -> Trial:
    return apart(values.given(rank, count), _gathered(values, count))


def all_gather_in_place(values: Values, rank: int, count: int) -> Trial:
    whole = _gathered(values, count)
    return together(whole.size, _block(rank, count), values.given(rank, count), EVERYWHERE, whole)


def reduce_scatter(values: Values, rank: int, count: int) -> Trial:
    return apart(_whole(values, rank, count), values.reduced(rank * count, count))


def reduce_scatter_in_place(values: Values, rank: int, count: int) -> Trial:
    whole, block = _whole(values, rank, count), values.reduced(rank * count, count)
    return together(whole.size, EVERYWHERE, whole, _block(rank, count), block)


def gather(values: Values, rank: int, count: int) -> Trial:
    return apart(values.given(rank, count), None if rank else _gathered(values, count))


def gather_in_place(values: Values, rank: int, count: int) -> Trial:
    return (gather if rank else all_gather_in_place)(values, rank, count)


def scatter(values: Values, rank: int, count: int) -> Trial:
    whole = _whole(values, 0, count)
    return apart(None if rank else whole, whole[_block(rank, count)])


def scatter_in_place(values: Values, rank: int, count: int) -> Trial:
    whole = _whole(values, 0, count)
    if rank:
        return scatter(values, rank, count)
    return together(whole.size, EVERYWHERE, whole, _block(rank, count), whole[_block(rank, count)])


def all_to_all(values: Values, rank: int, count: int) -> Trial:
    return apart(_whole(values, rank, count), _column(values, rank, count))


def all_to_all_in_place(values: Values, rank: int, count: int) -> Trial:
    column = _column(values, rank, count)
    return together(column.size, EVERYWHERE, _whole(values, rank, count), EVERYWHERE, column)


def _block(rank: int, count: int) -> slice:
    return slice(rank * count, (rank + 1) * count)


def _whole(values: Values, rank: int, count: int) -> Array:
    """A block for every rank."""
    return values.given(rank, count * values.world_size)


def _gathered(values: Values, count: int) -> Array:
    return np.concatenate([values.given(rank, count) for rank in range(values.world_size)])


def _column(values: Values, rank: int, count: int) -> Array:
    """From every rank the block that it has for this one."""
    ranks = range(values.world_size)
    return np.concatenate([values.given(source, count, rank * count) for source in ranks])
