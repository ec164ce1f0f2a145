"""Training on a grid of ranks: as in one process, and bit for bit alike where strategies add alike.

Few runs cover much: each row of the tables crosses several things. A row names the ranks, the strategies
that must give the same bits, and what they are told.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest

from zero_emulator.batches import global_batches
from zero_emulator.compare import DRIFT_TOLERANCE
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.differences import distance, largest_difference
from zero_emulator.judge import faults
from zero_emulator.layout import Array
from zero_emulator.losses import LOSSES
from zero_emulator.model import initial_parameters
from zero_emulator.outcome import Outcome
from zero_emulator.pipeline import SCHEDULES
from zero_emulator.rank_run import RankRun
from zero_emulator.reference import serial_run
from zero_emulator.serial import train_serially
from zero_emulator.trainer import Trainer

WHOLE = ("ddp", "zero1")
SHARDED = ("zero2", "zero3")
"""With several micro-batches these two pairs add in two orders."""


class Row(NamedTuple):
    ranks: int
    strategies: tuple[str, ...]
    settings: dict[str, Any]


# 11 rows, which divide by nothing, through layers of 24, 15, 16 and 15 parameters: uneven blocks and chunks.
EXACT = {
    "pipeline 2 x data 4": Row(8, (*WHOLE, *SHARDED), {"pipeline": 2, "clip": 0.05, "iterations": 1}),
    "data 8": Row(8, ("zero3",), {"shard_size": 8, "iterations": 1}),
    "pipeline 4 x data 2": Row(8, WHOLE, {"pipeline": 4, "micro_batches": 3, "optimizer": "muon"}),
    "chunks in turn": Row(
        4, ("zero3",), {"pipeline": 2, "chunks": 2, "micro_batches": 4, "hidden": (4, 3, 4, 3, 2)}
    ),
    "chunks by gpipe": Row(
        2,
        SHARDED,
        {"pipeline": 2, "chunks": 2, "schedule": "gpipe", "micro_batches": 3, "optimizer": "muon"},
    ),
    "all forwards first": Row(2, SHARDED, {"schedule": "gpipe", "micro_batches": 3}),
    "two ranks": Row(2, WHOLE, {"pipeline": 2, "micro_batches": 8, "optimizer": "sgd", "momentum": 0.9}),
    "shards of 1": Row(
        8, ("zero1", "zero3"), {"pipeline": 2, "shard_size": 1, "clip": 0.05, "optimizer": "muon"}
    ),
    "shards of 2": Row(
        8, SHARDED, {"pipeline": 2, "shard_size": 2, "micro_batches": 3, "clip": 0.05, "optimizer": "muon"}
    ),
    "shards of 4 of 8": Row(8, ("zero2",), {"shard_size": 4, "micro_batches": 2, "hidden": (4,)}),
    "fewer rows than ranks": Row(
        8,
        ("zero3",),
        {"pipeline": 4, "batch_size": 3, "micro_batches": 3, "schedule": "gpipe", "iterations": 1},
    ),
    "whole layers to ranks": Row(
        4, SHARDED, {"pipeline": 2, "cut": "layers", "micro_batches": 2, "optimizer": "muon", "clip": 0.05}
    ),
    "padded blocks": Row(4, ("zero1",), {"pipeline": 2, "shard_size": 1, "padding": "2n", "loss": "mse"}),
    "experts": Row(
        4,
        ("zero3",),
        {"pipeline": 2, "expert": 2, "experts": 4, "top_k": 2, "micro_batches": 2, "iterations": 1},
    ),
    "experts in shards of 1": Row(
        4, ("zero1", "zero3"), {"expert": 2, "experts": 2, "shard_size": 1, "clip": 0.05, "iterations": 1}
    ),
    "the last view kept, beside experts": Row(
        4,
        ("zero3",),
        {"keep_views": "last", "expert": 2, "experts": 2, "micro_batches": 2, "iterations": 1},
    ),
    "other algorithms": Row(
        4, ("zero1", "zero3"), {"shard_size": 2, "algorithm": ("direct", "all_reduce=tree")}
    ),
}

NARROW = {
    "bf16": Row(4, ("zero2",), {"shard_size": 2, "precision": "bf16", "micro_batches": 3}),
    "bf16+fp32grad": Row(
        4, SHARDED, {"pipeline": 2, "shard_size": 1, "precision": "bf16+fp32grad", "micro_batches": 2}
    ),
    "fp16": Row(4, ("ddp",), {"pipeline": 2, "precision": "fp16", "clip": 0.05, "micro_batches": 3}),
}


def cases(rows: dict[str, Row]) -> Any:
    values = [pytest.param(row.ranks, row, id=name) for name, row in rows.items()]
    return pytest.mark.parametrize(("world_size", "row"), values)


@pytest.fixture
def settings(settings: dict[str, Any]) -> dict[str, Any]:
    return settings | {"hidden": (4, 3, 4)}


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
    assert np.array_equal(left.losses, right.losses, equal_nan=True)


def serial(config: RunConfig, data: Dataset, ranks: int) -> tuple[list[Array], list[float]]:
    """Weights and losses of the same training in one process."""
    layers = config.partition(data, ranks).layers
    weights = initial_parameters(layers, config.seed, config.policy.compute)
    losses = train_serially(
        layers, weights, config.make_optimizer(), LOSSES[config.loss], global_batches(config, data),
        micro_batches=config.micro_batches, max_norm=config.clip,
    )  # fmt: skip
    return weights, losses


def assert_serial(outcome: Outcome, data: Dataset, ranks: int) -> None:
    weights, losses = serial(outcome.config, data, ranks)
    assert largest_difference(outcome.weights, weights) < 1e-12
    assert outcome.losses == pytest.approx(losses, rel=1e-12)


@cases(EXACT)
def test_a_grid_trains_what_one_process_does_and_strategies_that_add_alike_give_the_same_bits(
    train: Any, toy: Dataset, row: Row
) -> None:
    outcome, *_ = trained(train, toy, row)
    assert_serial(outcome, toy, row.ranks)


@pytest.mark.parametrize("world_size", [2])
def test_fifty_iterations_of_a_pipeline_end_where_serial_training_ends(train: Any, toy: Dataset) -> None:
    row = Row(2, ("zero3",), {"pipeline": 2, "hidden": (4,), "iterations": 50, "audit_every": 50})
    (outcome,) = trained(train, toy, row)
    assert_serial(outcome, toy, row.ranks)
    assert outcome.losses[-1] < outcome.losses[0]


@cases(NARROW)
def test_narrow_dtypes_drift_on_a_grid_no_further_than_by_rounding(
    train: Any, toy: Dataset, row: Row
) -> None:
    outcome, *_ = trained(train, toy, row, dtype=None)
    config = outcome.config
    weights = serial_run(config, toy, row.ranks, outcome.reports[0].skipped).weights
    start = initial_parameters(config.partition(toy, row.ranks).layers, config.seed, np.float64)
    assert distance(outcome.weights, weights) / distance(weights, start) < DRIFT_TOLERANCE["bfloat16"]


@pytest.mark.parametrize("world_size", [8])
def test_all_stages_skip_the_update_that_one_rank_of_one_stage_votes_down(
    train: Any, toy: Dataset, monkeypatch: Any
) -> None:
    backward_layer = Trainer._backward_layer

    def overflowing(self: Trainer, layer: int, *more: Any) -> Any:
        grad_x = backward_layer(self, layer, *more)
        if (self.comm.rank, self.iteration) == (5, 2):
            self.strategy.written[0] = np.inf  # type: ignore[index]
        return grad_x

    monkeypatch.setattr(Trainer, "_backward_layer", overflowing)
    row = Row(8, ("zero2",), {"pipeline": 2, "shard_size": 2, "precision": "fp16", "iterations": 3})
    (outcome,) = trained(train, toy, row, dtype=None)
    assert [report.skipped for report in outcome.reports] == [[2]] * 8


@pytest.mark.parametrize("world_size", [2])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_prefetch_changes_no_bit_on_a_grid(train: Any, toy: Dataset, schedule: str) -> None:
    row = Row(2, ("zero3",), {"pipeline": 2, "chunks": 2, "micro_batches": 4, "schedule": schedule})
    (ahead,), (plain,) = trained(train, toy, row, prefetch=3), trained(train, toy, row)
    assert_same_bits(ahead, plain)


@pytest.mark.parametrize("world_size", [4])
def test_shards_over_all_copies_are_the_default_to_the_bit_and_the_byte(train: Any, toy: Dataset) -> None:
    asked, default = (train("zero3", pipeline=2, shard_size=size) for size in (2, None))
    assert_same_bits(asked, default)
    for one, other in zip(asked.reports, default.reports, strict=True):
        assert (one.traffic, one.persistent, one.peak) == (other.traffic, other.persistent, other.peak)


@pytest.mark.parametrize("strategy", ["zero1", "zero2"])
@pytest.mark.parametrize("world_size", [2])
def test_the_narrower_of_two_gradients_is_of_all_copies_too(
    run_ranks: Any, toy: Dataset, settings: dict[str, Any], strategy: str
) -> None:
    chosen = {"precision": "bf16+fp32grad", "dtype": None, "shard_size": 1, "iterations": 1}
    config = RunConfig(**settings | chosen | {"strategy": strategy})

    def body(comm: Any) -> bool:
        rank = RankRun(config, toy, comm.transport, keep_events=False, poison=True)
        rank.train(on_iteration=lambda iteration: None, audit_gradients=False)
        layers = rank.strategy.layers
        return all(
            layer.wide_grad is not None
            and np.array_equal(layer.grad, layer.wide_grad.astype(layer.grad.dtype))
            for layer in layers
        )

    assert run_ranks(body) == [True, True]
