"""One training run on one rank, from its configuration to the report of all ranks."""

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from math import isfinite

import numpy as np

from collectives.communicator import Communicator
from collectives.ledger import Entry, Ledger
from collectives.transports.base import Transport
from collectives.transports.metered import MeteredTransport
from zero_emulator.audit import DigestAudit, gather_gradients
from zero_emulator.batches import global_batches
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.expected_memory import advise
from zero_emulator.layout import Array
from zero_emulator.losses import LOSSES
from zero_emulator.memory import alive_bytes
from zero_emulator.meter import Meter, Peak
from zero_emulator.metrics import accuracy
from zero_emulator.strategies import STRATEGIES
from zero_emulator.traffic import RunTraffic
from zero_emulator.trainer import Trainer


@dataclass
class RankReport:
    """What one rank has to say of a run."""

    loss_shares: list[float]
    traffic: RunTraffic
    exchanges: int  # values that went past the ledger
    persistent: dict[str, int]  # bytes by kind
    peak: Peak
    contradictions: list[str]
    skipped: list[int]  # iterations whose update was voted down
    entries: list[Entry]
    host: str


@dataclass
class Outcome:
    """A run as every rank knows it at its end: the reports of all ranks, and the trained weights."""

    config: RunConfig
    reports: list[RankReport]
    digests: dict[int, list[str]]
    weights: list[Array]
    gradients: list[Array] | None  # of the first update, where they were audited
    test_accuracy: float
    seconds: float

    @property
    def losses(self) -> list[float]:
        """The mean loss over the global batch, iteration by iteration: the ranks' shares, in rank order."""
        return [sum(shares) for shares in zip(*(report.loss_shares for report in self.reports), strict=True)]

    @property
    def first_bad_loss(self) -> int | None:
        """The first iteration whose loss is not finite."""
        return next((i for i, loss in enumerate(self.losses, start=1) if not isfinite(loss)), None)


def run(
    config: RunConfig,
    dataset: Dataset,
    transport: Transport,
    *,
    on_iteration: Callable[[int], object] = lambda iteration: None,
    keep_events: bool = False,
    audit_gradients: bool = False,
    poison: bool = False,
) -> Outcome:
    """Train on this rank of ``transport`` and audit; every rank calls it and gets the same outcome.

    The reports are exchanged by the transport's own means at the end, uncounted: a ledger cannot count its
    own gathering.
    """
    start = time.monotonic()
    check_alike(config, dataset, transport)
    ledger = Ledger()
    partition = config.partition(dataset, transport.world_size)
    meter = Meter(config.device_memory, partial(advise, config, partition))
    comm = Communicator(
        MeteredTransport(transport, ledger),
        time_limit=config.time_limit,
        allocate=partial(meter.empty, "buffer", dtype=np.uint8),
    )
    strategy = STRATEGIES[config.strategy](
        comm,
        partition,
        config.seed,
        config.policy,
        config.make_optimizer(),
        config.strategy_options(poison=poison),
        meter,
    )
    audit = DigestAudit(comm, config.iterations, config.audit_every)
    trainer = Trainer(partition.layers, LOSSES[config.loss], strategy, audit.saw)
    traffic = RunTraffic()
    entries: list[Entry] = []
    shares: list[float] = []
    gradients: list[Array] | None = None
    for iteration, (x, y) in enumerate(global_batches(config, dataset), start=1):
        loss_scale = 1.0 if strategy.loss_scale is None else strategy.loss_scale.value
        shares.append(trainer.iterate(x, y))
        audit.close(iteration - 1)
        if audit_gradients and gradients is None and strategy.updates == 1:
            gradients = [gradient / loss_scale for gradient in gather_gradients(strategy, iteration)]
        landed = ledger.drain()
        traffic.add(landed)
        entries += landed if keep_events else []
        on_iteration(iteration)
    persistent, peak = alive_bytes(strategy), meter.peak
    weights = audit.close_last(strategy)
    traffic.add(ledger.entries)
    entries += ledger.entries if keep_events else []
    report = RankReport(
        shares,
        traffic,
        ledger.exchanges,
        persistent,
        peak,
        audit.contradictions,
        strategy.skipped,
        entries,
        platform.node(),
    )
    reports = comm.exchange(report)
    test_x = dataset.test_x.astype(config.policy.compute)
    with np.errstate(over="ignore", invalid="ignore"):
        quality = accuracy(partition.layers, weights, test_x, dataset.test_y)
    return Outcome(config, reports, audit.digests, weights, gradients, quality, time.monotonic() - start)


def check_alike(config: RunConfig, dataset: Dataset, transport: Transport) -> None:
    """ValueError on all ranks unless they were told the same, and have the same data.

    Each rank updates its own block and the gathers make them alike: no audit sees that one used another rate.
    """
    data = blake2b(digest_size=16)
    for array in (dataset.train_x, dataset.train_y, dataset.test_x, dataset.test_y):
        data.update(np.ascontiguousarray(array).data)
    told = transport.exchange(config.as_json() | {"data": data.hexdigest()}, config.time_limit)
    for rank, settings in enumerate(told):
        for name, value in settings.items():
            if value != told[0][name]:
                raise ValueError(
                    f"rank 0 has {name} {told[0][name]}, rank {rank} has {value}: give all the same"
                )
