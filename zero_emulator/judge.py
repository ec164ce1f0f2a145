"""Whether a run keeps its promises: every broken one in words, with the numbers."""

from collections.abc import Iterator
from itertools import permutations
from typing import get_args

import numpy as np

from collectives.ledger import Kind
from zero_emulator.audit import digest_faults
from zero_emulator.config import RunConfig
from zero_emulator.expected_link import expected_link
from zero_emulator.expected_memory import expected_gradients, expected_peak, expected_persistent, knows_peak
from zero_emulator.expected_reference import expected_crossing, expected_residency
from zero_emulator.expected_traffic import (
    expected_by_axis,
    expected_overhead,
    expected_traffic,
    first_update,
)
from zero_emulator.experts import alike
from zero_emulator.outcome import Outcome
from zero_emulator.partition import Partition
from zero_emulator.theory import NOTHING, Flow
from zero_emulator.traffic import IterationTraffic


def faults(config: RunConfig, partition: Partition, outcome: Outcome) -> list[str]:
    """What is wrong with a run; nothing if it passes."""
    return [
        *_loss_faults(outcome),
        *_traffic_faults(config, partition, outcome),
        *_pairing_faults(outcome),
        *_persistent_faults(config, partition, outcome),
        *_gradient_faults(config, partition, outcome),
        *_peak_faults(config, partition, outcome),
        *_reference_faults(config, partition, outcome),
        *_link_faults(config, partition, outcome),
        *(fault for report in outcome.reports for fault in report.contradictions),
        *_skip_faults(outcome),
        *_routing_faults(partition, outcome),
        *_digest_faults(partition, outcome),
    ]


def _loss_faults(outcome: Outcome) -> Iterator[str]:
    if outcome.first_bad_loss is not None:
        yield f"iteration {outcome.first_bad_loss}: the loss is not finite: lower --lr, or --clip"
    elif not all(np.isfinite(weights).all() for weights in outcome.weights):
        yield "the weights after the last update are not all finite: lower --lr, or --clip"


def _traffic_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
    """Whatever was counted that no closed form expects, or was expected and not counted."""
    for rank, report in enumerate(outcome.reports):
        iterations = range(1, config.iterations + 1)
        updated_first = first_update(config.iterations, report.skipped)
        for iteration in iterations:
            counted = report.traffic.by_iteration[iteration]
            skipped = iteration in report.skipped
            routings = outcome.routings(iteration)
            training = expected_traffic(config, partition, rank, skipped=skipped, routings=routings)
            where = f"iteration {iteration}, rank {rank}"
            if not counted.equals(training):
                flows = {key: Flow(counted.sent[key], counted.received[key]) for key in counted.calls}
                yield f"{where}: counted {_flows(flows)}, expected {_flows(training)} (bytes sent/received)"
            along, expected_along = counted.along(), expected_by_axis(training)
            for axis in along.keys() | expected_along.keys():
                if along.get(axis, NOTHING) != expected_along.get(axis, NOTHING):
                    yield (
                        f"{where}: counted {_flow(along.get(axis, NOTHING))} bytes along the {axis} axis, "
                        f"expected {_flow(expected_along.get(axis, NOTHING))} (sent/received)"
                    )
            besides = expected_overhead(
                config,
                partition,
                rank,
                iteration,
                skipped=skipped,
                gradient_audit=outcome.gradients is not None and iteration == updated_first,
            )
            for kind, expected in besides.items():
                if counted.overhead(kind) != expected:
                    yield (
                        f"{where}: counted {_flow(counted.overhead(kind))} {kind} bytes, expected "
                        f"{_flow(expected)} (sent/received)"
                    )
        for other in report.traffic.by_iteration.keys() - set(iterations):
            if report.traffic.by_iteration[other] != IterationTraffic():
                yield f"rank {rank} counted bytes outside its iterations, as of iteration {other}"
        if report.exchanges:
            yield f"rank {rank} exchanged {report.exchanges} values past the ledger"


def _pairing_faults(outcome: Outcome) -> Iterator[str]:
    """What one end of a wire counted and the other did not, of any kind of traffic."""
    traffic = [report.traffic for report in outcome.reports]
    for sender, receiver in permutations(range(len(traffic)), 2):
        for kind in get_args(Kind):
            sent = traffic[sender].sent_to[receiver, kind]
            received = traffic[receiver].received_from[sender, kind]
            if sent != received:
                yield (
                    f"rank {sender} counted {sent} {kind} bytes sent to rank {receiver}, "
                    f"which counted {received} received"
                )


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


def _persistent_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
    for rank, report in enumerate(outcome.reports):
        expected = expected_persistent(config, partition, rank)
        if report.persistent != expected:
            yield f"rank {rank} keeps {_sizes(report.persistent)}, expected {_sizes(expected)}"


def _gradient_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
    for rank, report in enumerate(outcome.reports):
        expected = expected_gradients(config, partition, rank)
        if report.gradient_bytes != expected:
            yield (
                f"rank {rank} had at most {report.gradient_bytes} bytes of gradients at once, "
                f"expected {expected}"
            )


def _peak_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
    if not knows_peak(config, partition):
        return  # no closed form of all that passes
    for rank, report in enumerate(outcome.reports):
        expected = expected_peak(config, partition, rank, report.skipped)
        if report.peak != expected:
            yield f"rank {rank} held {report.peak}; expected {expected}"


def _reference_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
    """The frozen model's bytes on the device, and over the link, that no closed form expects."""
    for rank, report in enumerate(outcome.reports):
        most, expected = report.reference.most_bytes, expected_residency(config, partition, rank)
        if most != expected:
            yield f"rank {rank} has {most} bytes of the reference on the device at most, expected {expected}"
        expected = expected_crossing(config, partition, rank)
        for iteration, crossed in enumerate(report.reference.crossed, start=1):
            if crossed.num_bytes != expected:
                yield (
                    f"iteration {iteration}, rank {rank}: {crossed.num_bytes} bytes of the reference came "
                    f"over the link, expected {expected}"
                )


def _link_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
    for rank, report in enumerate(outcome.reports):
        for iteration, copied in enumerate(report.link, start=1):
            expected = expected_link(config, partition, rank, skipped=iteration in report.skipped)
            if copied != expected:
                yield (
                    f"iteration {iteration}, rank {rank}: copied {copied.to_host}/{copied.to_device} bytes "
                    f"over the link, expected {expected.to_host}/{expected.to_device} (to host/to device)"
                )


def _flow(flow: Flow) -> str:
    return f"{flow.sent}/{flow.received}"


def _flows(flows: dict[tuple[str, str], Flow]) -> str:
    parts = (f"{phase} {collective} {_flow(flow)}" for (phase, collective), flow in flows.items())
    return " and ".join(parts) or "nothing"


def _sizes(persistent: dict[str, int]) -> str:
    return ", ".join(f"{num_bytes} bytes of {kind}" for kind, num_bytes in persistent.items())
