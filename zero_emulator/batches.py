"""A run's global batches, and the rows of them that each rank computes on."""

from collections.abc import Iterator

import numpy as np

from collectives.blocks import bounds, even_cut
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset, batch_indices
from zero_emulator.layout import Array


def global_batches(config: RunConfig, dataset: Dataset) -> Iterator[tuple[Array, Array]]:
    """(x, y) of each iteration's global batch, in the dtype that is computed in: the same on every rank."""
    x = dataset.train_x.astype(config.policy.compute)
    y = targets(config, dataset, dataset.train_y)
    for chosen in batch_indices(len(x), config.batch_size, config.iterations, config.seed):
        yield x[chosen], y[chosen]


def targets(config: RunConfig, dataset: Dataset, labels: Array) -> Array:
    """The labels as the loss wants them: class indices, or one-hot rows for the squared error."""
    if config.loss == "cross_entropy":
        return labels
    return np.eye(dataset.num_classes, dtype=config.policy.compute)[labels]


def rank_rows(batch_size: int, micro_batches: int, world_size: int, rank: int) -> Iterator[slice]:
    """The rows of one rank in each micro-batch: the batch is cut into those first, each then over the ranks.

    >>> list(rank_rows(10, 2, 4, 0))
    [slice(0, 2, None), slice(5, 7, None)]
    """
    for part in bounds(even_cut(batch_size, micro_batches)):
        own = bounds(even_cut(part.stop - part.start, world_size))[rank]
        yield slice(part.start + own.start, part.start + own.stop)
