"""What serial training makes of a run's configuration: its weights, and the gradient of its first update."""

from collections.abc import Collection
from itertools import islice
from typing import NamedTuple

import numpy as np

from zero_emulator.batches import global_batches
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.dtypes import dtype_of
from zero_emulator.layout import Array
from zero_emulator.losses import LOSSES, AddedLoss, kl_to_reference, log_softmax
from zero_emulator.model import initial_parameters
from zero_emulator.serial import batch_gradients, train_serially
from zero_emulator.weight_files import Model


class SerialRun(NamedTuple):
    """What one process makes of the training: its weights, and the loss of every iteration with an update."""

    weights: list[Array]
    losses: list[float]


def serial_run(
    config: RunConfig,
    dataset: Dataset,
    world_size: int,
    skipped: Collection[int] = (),
    frozen: Model | None = None,
) -> SerialRun:
    """The same training in one process, its parameters padded as on so many ranks.

    Without the iterations ``skipped``, whose updates were voted down. ``frozen`` is the reference, if any.
    """
    layers = config.partition(dataset, world_size).layers
    weights = initial_parameters(layers, config.seed, config.policy.compute)
    batches = enumerate(global_batches(config, dataset), start=1)
    with np.errstate(over="ignore", invalid="ignore"):
        losses = train_serially(
            layers,
            weights,
            config.make_optimizer(),
            LOSSES[config.loss],
            (batch for iteration, batch in batches if iteration not in skipped),
            micro_batches=config.micro_batches,
            max_norm=config.clip,
            near=_near(config, frozen),
        )
    return SerialRun(weights, losses)


def first_gradients(
    config: RunConfig, dataset: Dataset, world_size: int, iteration: int, frozen: Model | None = None
) -> list[Array]:
    """The gradient of the first update, made in this iteration, in one process and before clipping.

    Of the weights as ranks keep them: rounding alone can make a row choose another expert.
    """
    layers = config.partition(dataset, world_size).layers
    weights = [
        params.astype(dtype_of(config.policy.weight)).astype(config.policy.compute)
        for params in initial_parameters(layers, config.seed, config.policy.compute)
    ]
    x, y = next(islice(global_batches(config, dataset), iteration - 1, None))
    _, gradients = batch_gradients(
        layers, weights, LOSSES[config.loss], x, y, config.micro_batches, _near(config, frozen)
    )
    return gradients


def _near(config: RunConfig, frozen: Model | None) -> AddedLoss | None:
    """The divergence from the reference: a plain forward with all weights at hand."""
    if config.reference is None or frozen is None:
        return None
    coefficient = config.reference.kl

    def near(x: Array, outputs: Array, global_count: int) -> tuple[float, Array]:
        for layer, params in zip(frozen.layers, frozen.weights, strict=True):
            x, _ = layer.forward(params, x)
        return kl_to_reference(outputs, log_softmax(x), global_count, coefficient)

    return near
