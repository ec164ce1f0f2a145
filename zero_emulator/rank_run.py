"""One rank of a run: what trains, and what watches it do so."""

import platform
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from collectives.communicator import Communicator
from collectives.ledger import Entry, Ledger
from collectives.transports.base import Transport
from collectives.transports.metered import MeteredTransport
from zero_emulator.audit import DigestAudit, gather_gradients
from zero_emulator.axes import Axes, make_axes
from zero_emulator.batches import global_batches
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.expected_memory import advise, advise_host
from zero_emulator.experts import CommunicatorPeers, part
from zero_emulator.host import Host, on_host
from zero_emulator.layer import Layer
from zero_emulator.layout import Array
from zero_emulator.losses import LOSSES
from zero_emulator.memory import alive_bytes
from zero_emulator.meter import PASSING, Meter, describe_kinds
from zero_emulator.near_reference import Crossed, NearReference
from zero_emulator.neighbours import Neighbours
from zero_emulator.offload import Copier, Link, Transfers
from zero_emulator.outcome import RankReport, ReferenceUse, Routings, Stall
from zero_emulator.partition import Partition
from zero_emulator.strategies import strategy_for
from zero_emulator.theory import LinkBytes
from zero_emulator.traffic import RunTraffic
from zero_emulator.trainer import Trainer
from zero_emulator.weight_files import Model


def make_host(config: RunConfig, memory: Meter) -> Host | None:
    """The host that a rank of this run keeps some of its state on; None where it keeps none."""
    if not config.offload:
        return None
    transfers = Transfers(Link(config.link_bandwidth), Copier(config.time_limit))
    return Host(on_host(config.offload), memory, transfers)


class RankRun:
    """A rank's trainer on a counted transport with metered memory; ``train`` once, then ``finish``."""

    def __init__(
        self,
        config: RunConfig,
        dataset: Dataset,
        transport: Transport,
        *,
        keep_events: bool,
        poison: bool,
        frozen: Model | None = None,
    ) -> None:
        self.config, self.dataset, self.keep_events = config, dataset, keep_events
        partition = config.partition(dataset, transport.world_size)
        self.ledger = Ledger()
        self.meter = Meter(config.device_memory, partial(advise, config, partition))
        self.host_meter = host_memory = Meter(config.host_memory, partial(advise_host, config), place="host")
        self.comm = Communicator(
            MeteredTransport(transport, self.ledger),
            time_limit=config.time_limit,
            allocate=partial(self.meter.empty, "buffer", dtype=np.uint8),
        )
        self.comm.axis = "data"
        axes = make_axes(self.comm, partition.grid)
        self.host = make_host(config, host_memory)
        self.strategy = strategy_for(config.strategy, config.offload)(
            self.comm,
            partition,
            config.seed,
            config.policy,
            config.make_optimizer(),
            config.strategy_options(poison=poison),
            self.meter,
            axes,
            self.host,
        )
        self.audit = DigestAudit(self.comm, partition, config.iterations, config.audit_every)
        self.near = self._near(frozen, host_memory)
        self.trainer = Trainer(
            self._layers(axes, partition),
            LOSSES[config.loss],
            self.strategy,
            self.audit.saw,
            self._neighbours(axes, partition),
            self.near,
        )
        self.crossed: list[Crossed] = []
        self.traffic = RunTraffic()
        self.entries: list[Entry] = []
        self.loss_shares: list[float] = []
        self.link_bytes: list[LinkBytes] = []
        self.leaks: list[str] = []
        self.routings: dict[int, Routings] = {}

    def _near(self, frozen: Model | None, host_memory: Meter) -> NearReference | None:
        """What holds the rank near the reference, if there is one and the rank computes the loss."""
        config = self.config
        if config.reference is None or frozen is None or not self.strategy.share.has_loss:
            return None
        return NearReference(
            config.reference,
            frozen,
            self.meter,
            host_memory,
            bandwidth=config.link_bandwidth,
            time_limit=config.time_limit,
        )

    def _neighbours(self, axes: Axes, partition: Partition) -> Neighbours | None:
        """The rank's messages to other stages, if there are any."""
        grid = partition.grid
        if grid.pipeline == 1:
            return None
        return Neighbours(axes.pipeline(grid.pipeline_peers(self.comm.rank)))

    def _layers(self, axes: Axes, partition: Partition) -> Sequence[Layer]:
        """The rank's layers, which know whom to send samples to where there are experts."""
        grid, share = partition.grid, self.strategy.share
        layers = [held.plan for held in share.held]
        if not partition.has_experts:
            return layers
        sharing = grid.expert_peers(share.rank)
        peers = CommunicatorPeers(
            axes.data(grid.copies(share.rank, expert=False)),
            axes.expert(sharing) if grid.expert > 1 else None,
            [grid.stage_position(rank) for rank in sharing],
            partial(self.meter.empty, "activation"),
        )
        return part(layers, grid.expert_position(share.rank), grid.expert, peers)

    def train(self, *, on_iteration: Callable[[int], object], audit_gradients: bool) -> list[Array] | None:
        """Make all iterations; the rank's gradients of the first update, if they are to be audited."""
        gradients: list[Array] | None = None
        for iteration, (x, y) in enumerate(global_batches(self.config, self.dataset), start=1):
            loss_scale = 1.0 if self.strategy.loss_scale is None else self.strategy.loss_scale.value
            self.loss_shares.append(self.trainer.iterate(x, y))
            self.routings[iteration] = self.trainer.routings
            self.crossed.append(Crossed(0, None) if self.near is None else self.near.drain())
            self.audit.close(iteration - 1)
            if audit_gradients and gradients is None and self.strategy.updates == 1:
                gradients = [found / loss_scale for found in gather_gradients(self.strategy, iteration)]
            self._count(self.ledger.drain())
            self.link_bytes.append(self._copied())
            self._look_for_leaks(iteration)
            on_iteration(iteration)
        return gradients

    def finish(self) -> tuple[RankReport, list[Array]]:
        """This rank's report, and its trained weights, gathered after memory has been counted."""
        persistent, peak = alive_bytes(self.strategy), self.meter.peak
        gradient_bytes = self.meter.most_gradients
        weights = self.audit.close_last(self.strategy)
        self._count(self.ledger.entries)
        report = RankReport(
            loss_shares=self.loss_shares,
            traffic=self.traffic,
            exchanges=self.ledger.exchanges,
            persistent=persistent,
            peak=peak,
            gradient_bytes=gradient_bytes,
            link=self.link_bytes,
            stalls=self._stalls(),
            contradictions=self.audit.contradictions,
            leaks=self.leaks,
            skipped=self.strategy.skipped,
            routings=self.routings,
            entries=self.entries,
            host=platform.node(),
            reference=ReferenceUse(self.meter.most["reference"], self.crossed),
        )
        return report, weights

    def __enter__(self) -> "RankRun":
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads that it has."""
        if self.near is not None:
            self.near.close()
        if self.host is not None:
            self.host.transfers.copier.close()

    def _look_for_leaks(self, iteration: int) -> None:
        """Say what ought to have passed with this iteration, and is still held."""
        for meter in (self.meter, self.host_meter):
            if left := {kind: meter.alive[kind] for kind in PASSING if meter.alive[kind]}:
                self.leaks.append(
                    f"rank {self.comm.rank} still holds {describe_kinds(left)} bytes of the {meter.place} "
                    f"after iteration {iteration}"
                )

    def _copied(self) -> LinkBytes:
        """What went over the link since the last call."""
        if self.host is None:
            return LinkBytes(0, 0)
        link = self.host.transfers.link
        before_host, before_device = (sum(way) for way in zip(LinkBytes(0, 0), *self.link_bytes, strict=True))
        return LinkBytes(link.to_host_bytes - before_host, link.to_device_bytes - before_device)

    def _stalls(self) -> list[Stall]:
        """The modelled stalls of the run, of each thing that was copied again and again."""
        stalls: dict[str, Stall] = {}
        for copy in () if self.host is None else self.host.transfers.link.log:
            if copy.modelled_stall is not None:
                _, times, num_bytes, seconds = stalls.get(copy.name, Stall(copy.name, 0, 0, 0.0))
                stalls[copy.name] = Stall(
                    copy.name, times + 1, num_bytes + copy.num_bytes, seconds + copy.modelled_stall
                )
        return list(stalls.values())

    def _count(self, entries: Sequence[Entry]) -> None:
        self.traffic.add(entries)
        self.entries += entries if self.keep_events else []
