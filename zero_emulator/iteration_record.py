"""One iteration in a run's record: its loss, what each rank sent, who was routed where, who agreed."""

from collections import Counter
from collections.abc import Mapping
from math import isfinite

from zero_emulator.audit import digest_faults
from zero_emulator.config import RunConfig
from zero_emulator.documents import Json
from zero_emulator.expected_traffic import expected_traffic
from zero_emulator.experts import Routing
from zero_emulator.outcome import Outcome
from zero_emulator.partition import Partition
from zero_emulator.precision import ITEMSIZE
from zero_emulator.share import Share
from zero_emulator.theory import multiple


def iteration_record(config: RunConfig, partition: Partition, outcome: Outcome, iteration: int) -> Json:
    """What is said of an iteration, counted from 1; ``multiple`` is of the bytes along the data axis."""
    traffic = [_traffic(rank, outcome, config, partition, iteration) for rank in range(len(outcome.reports))]
    itemsize = ITEMSIZE[config.policy.weight]
    multiples = [
        multiple(one["sent_by_axis"].get("data", 0), _shared(partition.share(rank)), itemsize)
        for rank, one in enumerate(traffic)
    ]
    sharing = [found for found in multiples if found is not None]
    digests = outcome.digests.get(iteration)
    loss = outcome.losses[iteration - 1]
    return {
        "iteration": iteration,
        "loss": loss if isfinite(loss) else None,
        "skipped": iteration in outcome.reports[0].skipped,
        "traffic": traffic,
        "experts": _experts(outcome, iteration),
        "multiple": [min(sharing), max(sharing)] if sharing else None,
        "digests": digests,
        "identical": None if digests is None else not any(digest_faults(partition, digests)),
    }


def _experts(outcome: Outcome, iteration: int) -> list[Json]:
    """Of each router what its samples chose, and how many of these choices found their expert full."""
    by_router: dict[int, list[Routing]] = {}
    for (layer, _), routing in sorted(outcome.routings(iteration).items()):
        by_router.setdefault(layer, []).append(routing)
    return [
        {
            "layer": layer,
            "chosen": sum(one.counts.sum(axis=0) for one in routings).tolist(),
            "dropped": sum(one.dropped.sum(axis=0) for one in routings).tolist(),
        }
        for layer, routings in by_router.items()
    ]


def _shared(share: Share) -> list[tuple[int, int]]:
    """Parameters of each class of a rank's layers, and over how many ranks they are sharded."""
    return [(sum(held.plan.layout.num_params for held in of), len(of[0].sharers)) for of in share.classes]


def _traffic(rank: int, outcome: Outcome, config: RunConfig, partition: Partition, iteration: int) -> Json:
    report = outcome.reports[rank]
    counted = report.traffic.by_iteration[iteration]
    expected = expected_traffic(
        config,
        partition,
        rank,
        skipped=iteration in report.skipped,
        routings=outcome.routings(iteration),
    )
    return {
        "rank": rank,
        "sent": _fold(counted.sent, 1),
        "received": _fold(counted.received, 1),
        "sent_by_phase": _fold(counted.sent, 0),
        "sent_by_axis": dict(counted.sent_along),
        "expected_sent": sum(flow.sent for flow in expected.values()),
        "control_sent": counted.other_sent["control"],
        "audit_sent": counted.other_sent["audit"],
    }


def _fold(flows: Mapping[tuple[str, str], int], place: int) -> dict[str, int]:
    """Sum over (phase, collective) by one of the two."""
    sums: Counter[str] = Counter()
    for key, num_bytes in flows.items():
        sums[key[place]] += num_bytes
    return dict(sums)
