"""Training with experts on a grid of ranks: as in one process, however the experts are split.

Few runs cover much: each row of the table crosses several things. A row names the ranks, the strategies that
must give the same bits, and what they are told.
"""

from dataclasses import replace
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import pytest

from zero_emulator.batches import global_batches, rank_rows
from zero_emulator.compare import DRIFT_TOLERANCE
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.differences import distance, largest_difference, relative_difference
from zero_emulator.experts.gates import choose
from zero_emulator.judge import faults
from zero_emulator.layer import Layer
from zero_emulator.layout import Array
from zero_emulator.losses import LOSSES
from zero_emulator.model import initial_parameters
from zero_emulator.outcome import Outcome
from zero_emulator.record import run_record
from zero_emulator.reference import first_gradients, serial_run
from zero_emulator.report import describe_run
from zero_emulator.run import run
from zero_emulator.serial import train_serially

WHOLE = ("ddp", "zero1")
SHARDED = ("zero2", "zero3")
"""With several micro-batches these two pairs add in two orders."""


class Row(NamedTuple):
    ranks: int
    strategies: tuple[str, ...]
    settings: dict[str, Any]


# 11 rows, which divide by nothing, and 4 experts: 2 chunks are Linear, Router and Experts, Linear.
EXACT = {
    "every rank has all": Row(3, WHOLE, {"expert": 1, "top_k": 2, "micro_batches": 3, "iterations": 1}),
    "two split them": Row(
        4, (*WHOLE, *SHARDED), {"expert": 2, "capacity": 0.7, "clip": 0.05, "iterations": 1}
    ),
    "all split them": Row(
        4, SHARDED, {"expert": 4, "top_k": 2, "capacity": 1.0, "micro_batches": 3, "optimizer": "muon"}
    ),
    "a cut between router and experts": Row(
        8, ("zero1", "ddp"), {"pipeline": 2, "expert": 2, "top_k": 2, "micro_batches": 2, "clip": 0.05}
    ),
    "a cut around each layer": Row(
        4,
        SHARDED,
        {"pipeline": 2, "chunks": 2, "expert": 2, "micro_batches": 2, "capacity": 0.5, "optimizer": "muon"},
    ),
    "two routers, chunks by gpipe": Row(
        4,
        ("zero3",),
        {"pipeline": 2, "chunks": 3, "expert": 2, "schedule": "gpipe", "hidden": (4, 3), "micro_batches": 3},
    ),
    "run by run": Row(
        4,
        ("pipeline_zero2",),
        {"pipeline": 2, "chunks": 2, "expert": 2, "micro_batches": 4, "top_k": 2, "optimizer": "muon"},
    ),
    "gradients and moments on the host": Row(
        4,
        ("pipeline_zero2",),
        {"expert": 2, "micro_batches": 2, "capacity": 0.7, "offload": ("gradients", "optimizer")},
    ),
    "fewer rows than ranks": Row(
        4, SHARDED, {"expert": 2, "batch_size": 2, "top_k": 2, "micro_batches": 2, "iterations": 1}
    ),
    "experts that nobody chooses": Row(4, ("zero2",), {"expert": 4, "seed": 0, "iterations": 1}),
    "shards of 1": Row(4, ("zero1", "zero3"), {"expert": 2, "shard_size": 1, "clip": 0.05, "iterations": 1}),
    "whole layers to ranks": Row(
        4, SHARDED, {"expert": 2, "cut": "layers", "optimizer": "muon", "clip": 0.05, "iterations": 1}
    ),
}

NARROW = {
    "bf16": Row(4, ("zero2",), {"expert": 2, "precision": "bf16", "top_k": 2, "micro_batches": 2}),
    "fp16": Row(4, ("ddp",), {"expert": 4, "precision": "fp16", "clip": 0.05}),
}


def cases(rows: dict[str, Row]) -> Any:
    values = [pytest.param(row.ranks, row, id=name) for name, row in rows.items()]
    return pytest.mark.parametrize(("world_size", "row"), values)


@pytest.fixture
def settings(settings: dict[str, Any]) -> dict[str, Any]:
    """With this seed every expert is chosen."""
    return settings | {"hidden": (4,), "experts": 4, "expert_hidden": 3, "balance": 0.1, "seed": 24}


def trained(train: Any, data: Dataset, row: Row, **more: Any) -> list[Outcome]:
    """The row's runs, which have no fault and the same bits."""
    outcomes = [train(name, data=data, **row.settings | more) for name in row.strategies]
    for outcome in outcomes:
        assert faults(outcome.config, outcome.config.partition(data, row.ranks), outcome) == []
        assert_same_bits(outcome, outcomes[0])
    return outcomes


def assert_same_bits(left: Outcome, right: Outcome) -> None:
    for one, other in zip(left.weights, right.weights, strict=True):
        assert one.tobytes() == other.tobytes()
    assert left.digests == right.digests
    assert left.losses == right.losses


def start(config: RunConfig, data: Dataset) -> tuple[tuple[Layer, ...], list[Array]]:
    """The layers in one process, all experts in them, and their parameters before training."""
    layers = replace(config, pipeline=1, chunks=1, expert=1, shard_size=None).partition(data, 1).layers
    return layers, initial_parameters(layers, config.seed, config.policy.compute)


def train_whole(config: RunConfig, layers: Any, weights: list[Array], batches: Any) -> list[float]:
    """Train them in one process; the losses."""
    return train_serially(
        layers, weights, config.make_optimizer(), LOSSES[config.loss], batches,
        micro_batches=config.micro_batches, max_norm=config.clip,
    )  # fmt: skip


def assert_serial(outcome: Outcome, data: Dataset) -> None:
    layers, weights = start(outcome.config, data)
    losses = train_whole(outcome.config, layers, weights, global_batches(outcome.config, data))
    assert largest_difference(outcome.weights, weights) < 1e-12
    assert outcome.losses == pytest.approx(losses, rel=1e-12)


@cases(EXACT)
def test_experts_on_a_grid_train_as_in_one_process_and_strategies_that_add_alike_give_the_same_bits(
    train: Any, toy: Dataset, row: Row
) -> None:
    outcome, *_ = trained(train, toy, row)
    assert_serial(outcome, toy)


@pytest.mark.parametrize("world_size", [2])
def test_fifty_iterations_of_split_experts_end_where_serial_training_ends(train: Any, toy: Dataset) -> None:
    """Rounding may not flip a single choice: each one moves all weights by more than it."""
    row = Row(2, ("zero3",), {"expert": 2, "iterations": 50, "audit_every": 50, "capacity": 1.25})
    (outcome,) = trained(train, toy, row)
    assert_serial(outcome, toy)
    assert outcome.losses[-1] < outcome.losses[0]


@cases(NARROW)
def test_narrow_dtypes_drift_with_experts_no_further_than_by_rounding(
    train: Any, toy: Dataset, row: Row
) -> None:
    outcome, *_ = trained(train, toy, row, dtype=None)
    config = outcome.config
    weights = serial_run(config, toy, row.ranks, outcome.reports[0].skipped).weights
    before = initial_parameters(config.partition(toy, row.ranks).layers, config.seed, np.float64)
    assert distance(outcome.weights, weights) / distance(weights, before) < DRIFT_TOLERANCE["bfloat16"]


@pytest.mark.parametrize("world_size", [1])
def test_the_first_gradient_is_of_the_choices_that_narrow_weights_make(
    run_ranks: Any, toy: Dataset, settings: dict[str, Any]
) -> None:
    """With weights that are not rounded to bfloat16, one of these rows chooses another expert."""
    chosen = {"dtype": None, "precision": "bf16", "batch_size": 7, "seed": 50, "iterations": 1}
    config = RunConfig(**settings | chosen, strategy="ddp")
    outcome = run_ranks(lambda comm: run(config, toy, comm.transport, audit_gradients=True))[0]
    assert relative_difference(outcome.gradients, first_gradients(config, toy, 1, 1)) < 0.01


def always(expert: int) -> Any:
    """A choice that no row changes."""

    def chosen(probabilities: Array, top_k: int) -> Array:
        taken = np.zeros(probabilities.shape, bool)
        taken[:, expert] = True
        return taken

    return chosen


@pytest.mark.parametrize("expert", [0, 3])
@pytest.mark.parametrize("world_size", [4])
def test_all_rows_may_go_to_one_expert_and_none_to_the_others(
    train: Any, toy: Dataset, monkeypatch: Any, expert: int
) -> None:
    """So three ranks of four compute nothing, and all exchanges go to or from the one."""
    monkeypatch.setattr("zero_emulator.experts.router.choose", always(expert))
    outcome, *_ = trained(train, toy, Row(4, ("zero2",), {"expert": 4}))
    assert_serial(outcome, toy)
    for iteration in (1, 2):
        (routing,) = outcome.routings(iteration).values()
        assert routing.kept.sum(axis=0).tolist() == [11 if one == expert else 0 for one in range(4)]
    _, before = start(outcome.config, toy)
    moved = (outcome.weights[2] != before[2]).reshape(4, -1).any(axis=1)
    assert moved.tolist() == [one == expert for one in range(4)]


def drops_by_hand(config: RunConfig, data: Dataset) -> list[list[int]]:
    """Choices that one process drops, by iteration and expert; counted row by row."""
    assert config.capacity is not None
    layers, weights = start(config, data)
    found = []
    for x, y in global_batches(config, data):
        lost = [0] * config.experts
        for rows in rank_rows(len(x), config.micro_batches, 1, 0):
            inputs, _ = layers[0].forward(weights[0], x[rows])
            logits = inputs @ weights[1].reshape(-1, config.experts)
            taken = [0] * config.experts
            room = ceil(config.capacity * config.top_k * len(inputs) / config.experts)
            for expert in np.nonzero(choose(logits, config.top_k))[1]:
                taken[expert] += 1
                lost[expert] += taken[expert] > room
        found.append(lost)
        train_whole(config, layers, weights, [(x, y)])
    return found


@pytest.mark.parametrize("world_size", [4])
def test_what_is_dropped_is_recorded_and_reported_and_is_what_one_process_drops(
    train: Any, toy: Dataset
) -> None:
    chosen = {"expert": 2, "top_k": 2, "micro_batches": 2, "capacity": 0.6, "optimizer": "sgd", "lr": 0.1}
    (outcome,) = trained(train, toy, Row(4, ("zero1",), chosen))
    config = outcome.config
    record = run_record(config, config.partition(toy, 4), outcome, {})
    routers = [router for one in record["iterations"] for router in one["experts"]]
    assert [router["layer"] for router in routers] == [1, 1]
    assert [sum(router["chosen"]) for router in routers] == [22, 22]
    assert [router["dropped"] for router in routers] == drops_by_hand(config, toy)
    lost = sum(sum(router["dropped"]) for router in routers)
    assert lost > 0
    text = describe_run(record)
    assert f"  experts             {lost} of 44 choices dropped; " in text
    assert "identical on all copies of a layer after 2 of 2 audited" in text  # some ranks have other experts


@pytest.mark.parametrize("world_size", [2])
def test_without_a_capacity_nothing_is_dropped(train: Any, toy: Dataset, monkeypatch: Any) -> None:
    monkeypatch.setattr("zero_emulator.experts.router.choose", always(1))
    (outcome,) = trained(train, toy, Row(2, ("zero2",), {"expert": 2}))
    record = run_record(outcome.config, outcome.config.partition(toy, 2), outcome, {})
    assert [one["experts"][0]["chosen"] for one in record["iterations"]] == [[0, 11, 0, 0]] * 2
    assert "  experts             0 of 22 choices dropped; " in describe_run(record)
