"""What a run has counted on the wire and no closed form expects, or the other way round, in words."""

from collections.abc import Iterator
from itertools import permutations
from typing import get_args

from collectives.ledger import Kind
from zero_emulator.config import RunConfig
from zero_emulator.expected_traffic import (
    expected_by_axis,
    expected_overhead,
    expected_traffic,
    first_update,
)
from zero_emulator.outcome import Outcome
from zero_emulator.partition import Partition
from zero_emulator.theory import NOTHING, Flow
from zero_emulator.traffic import IterationTraffic


def traffic_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
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


def pairing_faults(outcome: Outcome) -> Iterator[str]:
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


def _flow(flow: Flow) -> str:
    return f"{flow.sent}/{flow.received}"


def _flows(flows: dict[tuple[str, str], Flow]) -> str:
    parts = (f"{phase} {collective} {_flow(flow)}" for (phase, collective), flow in flows.items())
    return " and ".join(parts) or "nothing"
