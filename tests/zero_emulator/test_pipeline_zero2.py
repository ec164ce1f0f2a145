"""Gradients that add up over runs of micro-batches, in two accumulators: same sums, bytes as they must be."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from collectives.transports.delaying import DelayingTransport
from collectives.transports.threads import run_threads
from zero_emulator.compare import compare, must_agree
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.differences import largest_difference
from zero_emulator.judge import faults
from zero_emulator.meter import Meter
from zero_emulator.offload import Slot, SlotError, Slots
from zero_emulator.outcome import Outcome
from zero_emulator.reference import serial_run
from zero_emulator.run import run
from zero_emulator.strategies.pipeline_zero2 import PipelineZero2
from zero_emulator.strategies.run_gradients import chunk_runs

WIDTHS = (4, 3, 5, 2, 4, 3, 5, 3, 2, 4, 3)
"""Of twelve layers in all."""

SHAPES = {
    "interleaved": {"pipeline": 2, "chunks": 4, "hidden": WIDTHS[:8]},
    "gpipe, a layer a chunk": {"pipeline": 2, "chunks": 6, "hidden": WIDTHS, "schedule": "gpipe"},
    "one stage": {"pipeline": 1, "chunks": 3, "hidden": WIDTHS[:4], "micro_batches": 3},
}


def config_of(**chosen: Any) -> RunConfig:
    given = {"micro_batches": 8, "batch_size": 17, "iterations": 2, "optimizer": "sgd", "dtype": "float64"}
    return RunConfig(**{"strategy": "pipeline_zero2", **given, **chosen})


def trained(
    config: RunConfig, dataset: Dataset, ranks: int = 4, wrap: Callable[[Any], Any] = lambda one: one
) -> Outcome:
    return run_threads(ranks, lambda transport: run(config, dataset, wrap(transport), poison=True))[0]


def found_faults(outcome: Outcome, dataset: Dataset) -> list[str]:
    return faults(outcome.config, outcome.config.partition(dataset, len(outcome.reports)), outcome)


@pytest.mark.parametrize(
    ("shape", "ranks"), [*((shape, 4) for shape in SHAPES), ("interleaved", 8), ("one stage", 1)]
)
def test_bytes_are_exact_and_parameters_those_of_serial_training(
    toy: Dataset, shape: str, ranks: int
) -> None:
    config = config_of(**SHAPES[shape])
    outcome = trained(config, toy, ranks)
    assert found_faults(outcome, toy) == []
    assert largest_difference(outcome.weights, serial_run(config, toy, ranks).weights) < 1e-12


def test_parameters_are_those_of_full_gradients(toy: Dataset) -> None:
    config = config_of(**SHAPES["interleaved"], batch_size=8)
    outcome, full = (trained(replace(config, strategy=name), toy, 2) for name in ("pipeline_zero2", "zero1"))
    assert largest_difference(outcome.weights, full.weights) < 1e-12


@pytest.mark.parametrize(
    ("shape", "like"),
    [
        ({"pipeline": 2, "chunks": 2, "schedule": "gpipe"}, "zero1"),
        ({"pipeline": 2, "chunks": 1}, "zero1"),
        ({"chunks": 2}, "zero2"),
    ],
)
@pytest.mark.parametrize("precision", [{}, {"precision": "bf16+fp32grad", "dtype": None}])
def test_one_run_of_all_micro_batches_adds_like_zero1_and_runs_of_one_like_zero2(
    toy: Dataset, shape: dict[str, Any], like: str, precision: dict[str, Any]
) -> None:
    config = config_of(hidden=WIDTHS[:3], micro_batches=2, **shape, **precision)
    assert must_agree(config, [like, "pipeline_zero2"]) == ((like, "pipeline_zero2"),)
    outcome, other = (trained(replace(config, strategy=name), toy, 2) for name in ("pipeline_zero2", like))
    assert outcome.digests == other.digests


@pytest.mark.parametrize(
    "more",
    [
        {"dtype": None, "precision": "bf16", "clip": 0.5},
        {"dtype": None, "precision": "bf16", "reduce_dtype": "float32", "padding": "even"},
        {"reduce_dtype": "float32", "optimizer": "muon"},
        {"clip": 0.05, "cut": "layers"},
        {"shard_size": 1},
    ],
)
def test_its_audits_hold_in_every_precision_and_layout(toy: Dataset, more: dict[str, Any]) -> None:
    outcome = trained(config_of(pipeline=2, chunks=2, hidden=WIDTHS[:4], micro_batches=4, **more), toy)
    assert found_faults(outcome, toy) == []


def test_a_rank_holds_its_shards_and_the_two_largest_accumulators_that_follow_one_another(
    toy: Dataset,
) -> None:
    """Layers of 24, 15, 20, 12, 12, 15, 20 and 18 parameters, each a chunk."""
    config = config_of(pipeline=2, chunks=4, hidden=WIDTHS[:7])
    outcome = trained(config, toy, 2)
    assert [report.gradient_bytes for report in outcome.reports] == [
        8 * (24 + 20 + 12 + 20 + 24 + 20),  # the last chunk of a run, the first of the next: 20 + 24
        8 * (15 + 12 + 15 + 18 + 18 + 15),
    ]


def test_it_holds_less_than_full_gradients_with_more_than_2n_of_n_minus_1_chunks(toy: Dataset) -> None:
    """Of equal layers on N = 2 ranks, V = 4 chunks break even."""
    square = replace(toy, train_x=toy.train_x[:, :4], test_x=toy.test_x[:, :4], num_classes=4)
    for chunks, saves in ((3, False), (4, False), (5, True)):
        config = config_of(chunks=chunks, hidden=(4,) * (chunks - 1), micro_batches=2, iterations=1)
        held, full = (
            trained(replace(config, strategy=name), square, 2).reports[0].gradient_bytes
            for name in ("pipeline_zero2", "zero1")
        )
        assert (held < full) == saves
        assert held == full * (chunks / 2 + 2) / chunks


def test_compare_runs_it_where_there_are_chunks_and_train_says_where_there_are_none(
    toy: Dataset, command: Any
) -> None:
    config = config_of(chunks=2, hidden=(3,), iterations=1, micro_batches=2)

    def on_rank(transport: Any) -> Any:
        run_one = partial(run, dataset=toy, transport=transport, audit_gradients=True)
        return compare(config, toy, transport, run_one=run_one)

    found = run_threads(2, on_rank)[0]
    assert [*found.outcomes] == ["ddp", "zero1", "zero2", "zero3", "pipeline_zero2"]
    assert not any(found.faults(config).values())
    code, _, err = command("train", "--strategy", "pipeline_zero2", "--transport", "threads")
    assert code == 2
    assert "the model is one chunk: give --pipeline or --chunks, or take zero2" in err


SMALL = {"chunks": 3, "hidden": WIDTHS[:4], "micro_batches": 2, "batch_size": 8}

DELAYED = (lambda transport: transport, DelayingTransport)


@pytest.mark.parametrize("wrap", DELAYED, ids=("quick", "delayed"))
def test_an_accumulator_written_before_its_rings_are_done_is_refused(
    toy: Dataset, monkeypatch: Any, wrap: Any
) -> None:
    assert found_faults(trained(config_of(**SMALL), toy, 2, wrap=wrap), toy) == []
    monkeypatch.setattr(Slot, "settle", lambda self: None)
    with pytest.raises(SlotError, match=r"the reduce_scatter of layer \d+ has not been awaited"):
        trained(config_of(**SMALL, time_limit=5.0), toy, 2, wrap=wrap)


def test_a_run_that_replaces_what_the_runs_before_it_added_is_refuted(toy: Dataset, monkeypatch: Any) -> None:
    def never_adding(share: Any) -> Any:
        return (one._replace(is_first=True) for one in chunk_runs(share))

    config = config_of(**SMALL)
    monkeypatch.setattr(PipelineZero2, "plan_runs", staticmethod(never_adding))
    assert largest_difference(trained(config, toy, 2).weights, serial_run(config, toy, 2).weights) > 1e-6


def test_a_third_accumulator_is_refuted_with_its_bytes(toy: Dataset, monkeypatch: Any) -> None:
    init = PipelineZero2.__init__

    def with_three(self: PipelineZero2, *arguments: Any) -> None:
        init(self, *arguments)
        self.slots = Slots(partial(self.meter.empty, "accumulator"), 3)

    monkeypatch.setattr(PipelineZero2, "__init__", with_three)
    found = found_faults(trained(config_of(**SMALL), toy, 2), toy)
    assert len(found) == 2
    assert all("bytes of gradients at once, expected" in fault for fault in found)


def test_a_meter_knows_the_most_gradients_at_once_whatever_else_there_is() -> None:
    meter = Meter()
    kept = meter.zeros("gradient", 10, np.uint8)
    accumulator = meter.empty("accumulator", 5, np.uint8)
    del accumulator
    view, accumulator = meter.empty("view", 100, np.uint8), meter.empty("accumulator", 3, np.uint8)
    assert meter.most_gradients == 15
    assert kept.nbytes + view.nbytes + accumulator.nbytes == 113
