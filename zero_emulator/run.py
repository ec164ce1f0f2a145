"""One training run on one rank, from its configuration to the report of all ranks."""

import time
from collections.abc import Callable

import numpy as np

from collectives.transports.base import Transport
from zero_emulator.alike import check_alike
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.frozen_reference import widths_of
from zero_emulator.metrics import accuracy
from zero_emulator.outcome import Outcome
from zero_emulator.rank_run import RankRun
from zero_emulator.weight_files import Model
from zero_emulator.whole_model import whole_model

__all__ = ["Outcome", "run"]


def run(
    config: RunConfig,
    dataset: Dataset,
    transport: Transport,
    *,
    on_iteration: Callable[[int], object] = lambda iteration: None,
    keep_events: bool = False,
    audit_gradients: bool = False,
    poison: bool = False,
    frozen: Model | None = None,
) -> Outcome:
    """Train on this rank of ``transport`` and audit; every rank calls it and gets the same outcome.

    ``frozen`` is the model that ``config.reference`` tells of; ValueError unless the two go together.

    The reports are exchanged by the transport's own means at the end, uncounted: a ledger cannot count its
    own gathering.
    """
    start = time.monotonic()
    _check_reference(config, frozen)
    check_alike(config, dataset, transport, frozen)
    with RankRun(config, dataset, transport, keep_events=keep_events, poison=poison, frozen=frozen) as rank:
        own_gradients = rank.train(on_iteration=on_iteration, audit_gradients=audit_gradients)
        report, own_weights = rank.finish()
    reports = rank.comm.exchange(report)
    partition = config.partition(dataset, transport.world_size)
    weights = whole_model(partition, rank.comm, own_weights)
    gradients = None if own_gradients is None else whole_model(partition, rank.comm, own_gradients)
    test_x = dataset.test_x.astype(config.policy.compute)
    with np.errstate(over="ignore", invalid="ignore"):
        quality = accuracy(partition.layers, weights, test_x, dataset.test_y)
    seconds = time.monotonic() - start
    return Outcome(config, reports, rank.audit.digests, weights, gradients, quality, seconds)


def _check_reference(config: RunConfig, frozen: Model | None) -> None:
    told, given = None if config.reference is None else config.reference.widths, widths_of(frozen)
    if told != given:
        raise ValueError(f"the reference has widths {given}, and the run is told of {told}: make both alike")
