"""The peak of memory: what the meter has seen is what the closed form says, by kind, and when."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.transports.threads import run_threads
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.expected_memory import expected_peak
from zero_emulator.layer_params import LayerParams
from zero_emulator.precision import PRECISIONS
from zero_emulator.run import run
from zero_emulator.theory import PLAIN, growths
from zero_emulator.theory.views import gathers


def assert_peak(config: RunConfig, dataset: Dataset, num_ranks: int) -> None:
    outcome = run_threads(num_ranks, lambda transport: run(config, dataset, transport, poison=True))[0]
    partition = config.partition(dataset, num_ranks)
    for rank, report in enumerate(outcome.reports):
        assert report.peak == expected_peak(config, partition, rank, report.skipped)


@settings(max_examples=60)
@given(
    num_ranks=st.integers(1, 5),
    strategy=st.sampled_from(list(PLAIN)),
    hidden=st.lists(st.integers(1, 9), max_size=3).map(tuple),
    batch_size=st.integers(1, 9),
    micro_batches=st.integers(1, 3),
    keep_views=st.sampled_from(["none", "last", "all"]),
    prefetch=st.integers(0, 4),
    precision=st.sampled_from(list(PRECISIONS)),
    grad_dtype=st.sampled_from([None, None, "float32", "float64", "bfloat16"]),
    reduce_dtype=st.sampled_from([None, None, "float32", "float64"]),
    param_wire_dtype=st.sampled_from([None, None, "float64"]),
    optimizer=st.sampled_from(
        [
            {"optimizer": "sgd"},
            {"optimizer": "sgd", "momentum": 0.5},
            {},
            {"optimizer": "adamw"},
            {"optimizer": "muon"},
        ]
    ),
    clip=st.sampled_from([None, 0.1]),
    loss=st.sampled_from(["cross_entropy", "mse"]),
    layout=st.sampled_from(
        [{}, {"padding": "even"}, {"padding": "2n"}, {"padding": "rows"}, {"cut": "layers"}]
    ),
)
def test_whatever_is_trained_holds_at_most_what_the_closed_form_says(
    toy: Dataset, num_ranks: int, optimizer: dict[str, Any], layout: dict[str, Any], **chosen: Any
) -> None:
    assert_peak(RunConfig(iterations=2, **chosen, **optimizer, **layout), toy, num_ranks)


@pytest.mark.on_threads
@pytest.mark.parametrize("keep_views", ["none", "all"])
@pytest.mark.parametrize("prefetch", [0, 1, 2])
@pytest.mark.parametrize("world_size", [3])
def test_prefetched_and_kept_views_are_held_as_long_as_the_closed_form_says(
    train: Any, toy: Dataset, prefetch: int, keep_views: Any
) -> None:
    outcome = train("zero3", hidden=(8, 8, 8, 8), prefetch=prefetch, keep_views=keep_views, batch_size=3)
    for rank, report in enumerate(outcome.reports):
        assert report.peak == expected_peak(outcome.config, outcome.config.partition(toy, 3), rank)
    # Of layers of 48, 72, 72, 72 and 27 parameters, in the backward: the one in use and those to come next,
    # or all that are yet to come.
    views = {"none": (72, 72 + 72, 72 + 72 + 48)[prefetch], "all": 3 * 72 + 48}[keep_views]
    assert outcome.reports[0].peak.by_kind["view"] == 8 * views


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [4])
def test_the_peak_of_equal_layers_falls_with_every_stage(train: Any, squares: Dataset) -> None:
    """Eight layers of 16 x 17 parameters, Ψ = 2176; on top of what is kept passes what a stage leaves."""
    psi, layer, block = 8 * 272, 272, 68
    passing = {  # numbers: full gradients, views, and what rings work in
        "ddp": 8 * block,  # an all-reduce in place needs room for a block, and all are in flight
        "zero1": 8 * block,
        "zero2": 2 * layer + 2 * block,  # the reduction in flight, in two blocks, and the next gradient
        "zero3": 3 * layer + 2 * block,  # and a view
    }
    kept = {"ddp": 4 * psi, "zero1": 2 * psi + psi // 2, "zero2": psi + 3 * psi // 4, "zero3": psi}
    peaks = {}
    for name in PLAIN:
        peak = train(name, data=squares, hidden=(16,) * 7, batch_size=4).reports[0].peak
        per_sample = sum(peak.by_kind.get(kind, 0) for kind in ("activation", "input"))
        assert peak.total - per_sample == 8 * (kept[name] + passing[name])
        peaks[name] = peak.total
    assert list(peaks.values()) == sorted(peaks.values(), reverse=True)


@pytest.fixture
def squares() -> Dataset:
    """As many classes as features."""
    x = np.random.default_rng(0).standard_normal((20, 16))
    return Dataset("squares", x, np.arange(20) % 16, x[:5], np.arange(5), num_classes=16)


@pytest.mark.on_threads
@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize("world_size", [2])
def test_master_weights_and_moments_are_touched_by_the_update_alone(
    train: Any, monkeypatch: Any, strategy: str
) -> None:
    """Parts are where the moments are."""
    touch, touched = LayerParams.__getattribute__, set()

    def logged(self: LayerParams, name: str) -> Any:
        if (phase := touch(self, "meter").at.phase) is not None:  # all is made in the set-up
            touched.add((name, phase))
        return touch(self, name)

    monkeypatch.setattr(LayerParams, "__getattribute__", logged)
    train(strategy, precision="bf16", dtype=None, micro_batches=2)
    assert {phase for name, phase in touched if name in ("master", "parts")} == {"update"}
    assert {("grad", "backward"), ("size", "backward")} <= touched


def test_the_gathers_of_an_iteration_are_worked_out_once(toy: Dataset, monkeypatch: Any) -> None:
    """Not at every moment: on a deep model that was most of the time of the closed form."""
    calls = []
    monkeypatch.setattr(growths, "gathers", lambda *asked: calls.append(asked) or gathers(*asked))
    config = RunConfig(strategy="zero3", hidden=(8,) * 6, micro_batches=3)
    expected_peak(config, config.partition(toy, 2), 0)
    assert len(calls) == 1
