"""The run record: what a run leaves for others to read. zero_emulator/run_record.md has its fields."""

from collections.abc import Mapping
from typing import Any

from zero_emulator.config import RunConfig
from zero_emulator.documents import Json
from zero_emulator.expected_link import expected_link
from zero_emulator.expected_memory import expected_gradients, expected_peak, knows_peak, whole_gradients
from zero_emulator.expected_reference import expected_crossing, expected_residency
from zero_emulator.expected_traffic import fetched_matrices
from zero_emulator.iteration_record import iteration_record
from zero_emulator.judge import faults
from zero_emulator.layout import FlatLayout
from zero_emulator.outcome import Outcome, RankReport
from zero_emulator.partition import Partition
from zero_emulator.theory import num_fetches

__all__ = ["RUN_SCHEMA", "Json", "run_record"]

RUN_SCHEMA = "zero-emulator/run/4"


def run_record(
    config: RunConfig, partition: Partition, outcome: Outcome, environment: Mapping[str, Any]
) -> Json:
    """The record of one run, as JSON values."""
    world_size = len(outcome.reports)
    found = faults(config, partition, outcome)
    return {
        "schema": RUN_SCHEMA,
        "config": config.as_json(),
        "environment": dict(environment) | {"hosts": [report.host for report in outcome.reports]},
        "num_params": partition.num_params,
        "world_size": world_size,
        "layers": [_tensors(layer.layout) for layer in partition.layers],
        "grid": _grid(partition),
        "rank_params": [partition.share(rank).num_params for rank in range(world_size)],
        "block_sizes": [list(sizes) for sizes in partition.blocks],
        "iterations": [
            iteration_record(config, partition, outcome, iteration)
            for iteration in range(1, config.iterations + 1)
        ],
        "gradient_audit": outcome.gradients is not None,
        "gathers_a_layer": _gathers_a_layer(config, partition, outcome),
        "persistent": [dict(report.persistent) for report in outcome.reports],
        "peak": [_peak(rank, config, partition, outcome) for rank in range(world_size)],
        "gradient_bytes": [_gradients(rank, config, partition, outcome) for rank in range(world_size)],
        "reference": _reference(config, partition, outcome),
        "link": [_link(rank, config, partition, report) for rank, report in enumerate(outcome.reports)],
        "totals": [
            {kind: report.traffic.sent[kind] for kind in ("training", "control", "audit")}
            for report in outcome.reports
        ],
        "test_accuracy": outcome.test_accuracy,
        "seconds": outcome.seconds,
        "faults": found,
        "verdict": "fail" if found else "pass",
    }


def _grid(partition: Partition) -> Json:
    """The degrees of each axis, and over how many ranks each class of parameters is copied and sharded."""
    grid = partition.grid
    classes = {
        "experts" if held.expert else "dense": {
            "copies": len(grid.copies(rank, expert=held.expert)),
            "sharding_degree": len(held.sharers),
        }
        for rank in range(partition.world_size)
        for held in partition.share(rank).held
    }
    return {
        "pipeline": grid.pipeline,
        "chunks": partition.chunks,
        "expert": grid.expert,
        "data": grid.ranks // grid.pipeline // grid.expert,
        "parameters": classes,
    }


def _tensors(layout: FlatLayout) -> list[Json]:
    padding = layout.padding or (0,) * len(layout.shapes)
    return [
        {"name": name, "shape": list(shape), "padding": zeros}
        for (name, shape), zeros in zip(layout.shapes, padding, strict=True)
    ]


def _peak(rank: int, config: RunConfig, partition: Partition, outcome: Outcome) -> Json:
    report, expected = outcome.reports[rank], None
    if knows_peak(config, partition):
        expected = expected_peak(config, partition, rank, report.skipped).total
    return {
        "total": report.peak.total,
        "expected": expected,
        "by_kind": report.peak.by_kind,
        **report.peak.moment._asdict(),
    }


def _gradients(rank: int, config: RunConfig, partition: Partition, outcome: Outcome) -> Json:
    """The most that a rank had added up at once, and what all of it would be if it were kept whole."""
    return {
        "counted": outcome.reports[rank].gradient_bytes,
        "expected": expected_gradients(config, partition, rank),
        "whole": whole_gradients(config, partition, rank),
    }


def _reference(config: RunConfig, partition: Partition, outcome: Outcome) -> list[Json] | None:
    """What each rank had of the frozen model on the device, and moved there in the whole run."""
    if config.reference is None:
        return None
    found = []
    for rank, report in enumerate(outcome.reports):
        most, crossed = report.reference
        stalls = [one.modelled_stall for one in crossed if one.modelled_stall is not None]
        in_iterations = config.iterations * expected_crossing(config, partition, rank)
        found.append(
            {
                "on_device": most,
                "expected_on_device": expected_residency(config, partition, rank),
                "to_device": sum(one.num_bytes for one in crossed),
                "expected_to_device": in_iterations,
                "modelled_stall": sum(stalls) if stalls else None,
            }
        )
    return found


def _link(rank: int, config: RunConfig, partition: Partition, report: RankReport) -> Json:
    """What the last iteration copied between host and device, and the modelled stalls of the run."""
    skipped = config.iterations in report.skipped
    return {
        **report.link[-1]._asdict(),
        "expected": expected_link(config, partition, rank, skipped=skipped)._asdict(),
        "stalls": [stall._asdict() for stall in report.stalls],
    }


def _gathers_a_layer(config: RunConfig, partition: Partition, outcome: Outcome) -> float:
    """How often an iteration gathers a layer's weights, on average over the layers: as rank 0 counted it."""
    first, last = outcome.reports[0], config.iterations
    calls = first.traffic.by_iteration[last].calls
    gathers = sum(count for (_, collective), count in calls.items() if collective == "all_gather")
    shares = [one for held in partition.share(0).held for one in held.matrices]
    fetched = fetched_matrices(config, shares, skipped=last in first.skipped)
    gathers -= num_fetches(fetched, 0)  # of matrices, to update them
    return gathers / len(partition.share(0).held)
