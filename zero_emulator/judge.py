"""Whether a run keeps its promises: every broken one in words, with the numbers."""

from collections.abc import Iterator

import numpy as np

from zero_emulator.audit import digest_faults
from zero_emulator.config import RunConfig
from zero_emulator.experts import alike
from zero_emulator.memory_faults import memory_faults
from zero_emulator.outcome import Outcome
from zero_emulator.partition import Partition
from zero_emulator.traffic_faults import pairing_faults, traffic_faults


def faults(config: RunConfig, partition: Partition, outcome: Outcome) -> list[str]:
    """What is wrong with a run; nothing if it passes."""
    return [
        *_loss_faults(outcome),
        *traffic_faults(config, partition, outcome),
        *pairing_faults(outcome),
        *memory_faults(config, partition, outcome),
        *(fault for report in outcome.reports for fault in (*report.contradictions, *report.leaks)),
        *_skip_faults(outcome),
        *_routing_faults(partition, outcome),
        *_digest_faults(partition, outcome),
    ]


def _loss_faults(outcome: Outcome) -> Iterator[str]:
    if outcome.first_bad_loss is not None:
        yield f"iteration {outcome.first_bad_loss}: the loss is not finite: lower --lr, or --clip"
    elif not all(np.isfinite(weights).all() for weights in outcome.weights):
        yield "the weights after the last update are not all finite: lower --lr, or --clip"


def _skip_faults(outcome: Outcome) -> Iterator[str]:
    first = outcome.reports[0].skipped
    for rank, report in enumerate(outcome.reports):
        if report.skipped != first:
            yield f"rank {rank} skipped the updates of iterations {report.skipped}, rank 0 those of {first}"


def _routing_faults(partition: Partition, outcome: Outcome) -> Iterator[str]:
    """Whether all ranks of a stage have the same in mind of who goes to which expert."""
    for rank, report in enumerate(outcome.reports):
        first = partition.grid.copies(rank, expert=False)[0]
        for iteration, routings in report.routings.items():
            others = outcome.reports[first].routings[iteration]
            for layer, micro_batch in sorted(routings.keys() | others.keys()):
                pair = routings.get((layer, micro_batch)), others.get((layer, micro_batch))
                if not alike(*pair):
                    yield (
                        f"iteration {iteration}, micro-batch {micro_batch}: ranks {first} and {rank} do not "
                        f"route the samples of layer {layer} alike"
                    )


def _digest_faults(partition: Partition, outcome: Outcome) -> Iterator[str]:
    for iteration, digests in outcome.digests.items():
        for fault in digest_faults(partition, digests):
            yield f"iteration {iteration}: {fault}"
