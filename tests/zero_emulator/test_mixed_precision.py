"""Mixed precision: the same bits everywhere, whatever is kept, sent and added in which dtype."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from collectives.communicator import Communicator
from collectives.transports.base import Transport
from collectives.transports.threads import run_threads
from zero_emulator.compare import Comparison, compare
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.judge import faults
from zero_emulator.layer_params import LayerParams
from zero_emulator.loss_scale import LossScale
from zero_emulator.optimizers import SGD
from zero_emulator.precision import find_precision
from zero_emulator.run import Outcome, run
from zero_emulator.strategies import STRATEGIES
from zero_emulator.theory import PLAIN
from zero_emulator.trainer import Trainer
from zero_emulator.update_parts import Part

pytestmark = pytest.mark.on_threads


@pytest.fixture
def train(run_ranks: Any, toy: Dataset, settings: dict[str, Any]) -> Any:
    """A run on every rank that must pass every audit; what rank 0 knows of it."""

    def train(**chosen: Any) -> Outcome:
        config = RunConfig(**{**settings, "dtype": None, "iterations": 4} | chosen)
        outcome = run_ranks(lambda comm: run(config, toy, comm.transport, poison=True))[0]
        world_size = len(outcome.reports)
        partition = config.partition(toy, world_size)
        assert faults(config, partition, outcome) == []
        return outcome

    return train


@pytest.mark.parametrize(
    ("precision", "more"),
    [
        ("bf16", {"reduce_dtype": "float32"}),
        ("bf16", {"param_wire_dtype": "float32"}),
        ("bf16-fp32grad", {"clip": 0.1}),
        ("bf16-fp32grad", {"param_wire_dtype": "float32"}),
        ("bf16+fp32grad", {}),
        ("fp16", {"clip": 0.1}),
        ("fp16", {"reduce_dtype": "float32"}),
    ],
)
@pytest.mark.parametrize("world_size", [3])
def test_all_strategies_give_the_same_bits(train: Any, precision: str, more: dict[str, Any]) -> None:
    digests = [train(strategy=name, precision=precision, **more).digests for name in PLAIN]
    assert digests == digests[:1] * 4


@pytest.mark.parametrize("precision", ["bf16", "bf16+fp32grad"])
@pytest.mark.parametrize("world_size", [2])
def test_with_micro_batches_those_that_reduce_equally_often_do(train: Any, precision: str) -> None:
    digests = {name: train(strategy=name, precision=precision, micro_batches=3).digests for name in PLAIN}
    assert digests["ddp"] == digests["zero1"]
    assert digests["zero2"] == digests["zero3"]


@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize("world_size", [3])
def test_infinity_on_one_rank_makes_all_skip(
    train: Any, monkeypatch: Any, strategy: str, clip: float | None
) -> None:
    loss, updates = Trainer._loss, []

    def overflowing(self: Trainer, *arguments: Any) -> Any:
        share, grad = loss(self, *arguments)
        if self.iteration == 3 and self.comm.rank == 1:
            grad.fill(np.inf)
        updates.append(self.strategy.updates)
        return share, grad

    monkeypatch.setattr(Trainer, "_loss", overflowing)
    outcome = train(strategy=strategy, precision="bf16", iterations=4, clip=clip)
    assert [report.skipped for report in outcome.reports] == [[3]] * 3
    # Of all ranks on threads, of this one over MPI: in its last two iterations Adam's counter stands still.
    assert [updates.count(number) for number in (0, 1, 2)] == [len(updates) // 4] * 2 + [len(updates) // 2]
    assert outcome.digests[3] == outcome.digests[2]
    assert outcome.digests[4] != outcome.digests[3]


@pytest.mark.parametrize("strategy", PLAIN)
def test_what_was_skipped_is_known_without_any_label(toy: Dataset, strategy: str) -> None:
    """Labels are for accounting: no number may depend on them."""
    config = RunConfig(strategy=strategy, precision="bf16")

    def body(transport: Transport) -> list[int]:
        comm = Communicator(transport)
        made = STRATEGIES[strategy](comm, config.partition(toy, 1), 0, config.policy, config.make_optimizer())
        made.layers[0].summed_grad.fill(np.inf)
        made.finish_iteration(5)
        return made.skipped

    assert run_threads(1, body) == [[5]]


@pytest.mark.parametrize("world_size", [2])
def test_small_gradients_survive_float16_by_their_scale(train: Any, monkeypatch: Any) -> None:
    scaled = train(strategy="zero2", precision="fp16", lr=1e-3)
    monkeypatch.setattr("zero_emulator.strategies.base.LossScale", lambda: LossScale(value=2.0**-20))
    lost = train(strategy="zero2", precision="fp16", lr=1e-3)
    exact = train(strategy="zero2", lr=1e-3)
    errors = [
        max(np.max(np.abs(a - b)) for a, b in zip(one.weights, exact.weights, strict=True))
        for one in (scaled, lost)
    ]
    assert errors[0] < 2e-3 < errors[1]


def test_a_loss_scale_halves_on_overflow_and_doubles_after_patience() -> None:
    scale = LossScale(value=8.0, patience=2)
    values = []
    for finite in (True, False, True, True, True):
        scale.learn(finite)
        values.append(scale.value)
    assert values == [8.0, 4.0, 4.0, 8.0, 8.0]


def test_a_master_keeps_count_of_updates_too_small_for_bfloat16(monkeypatch: Any) -> None:
    """1 - 0.001 is 1 in bfloat16, and so is 1 minus a thousand of them, one by one."""

    def after_a_thousand() -> float:
        parts = [Part(slice(0, 4), SGD(1e-3), {})]
        params = LayerParams(np.ones(4, np.float32), (4,), 0, 1, find_precision("bf16"), parts)
        params.grad[...] = 1
        for iteration in range(1, 1001):
            params.update(iteration, 1.0)
        return float(params.weight[0])

    assert abs(after_a_thousand()) < 1e-2
    update = LayerParams.update

    def without_a_master(self: LayerParams, *arguments: Any) -> None:
        update(self, *arguments)
        self.master[...] = self.weight  # type: ignore[index]

    monkeypatch.setattr(LayerParams, "update", without_a_master)
    assert after_a_thousand() == 1.0


def test_narrower_wire_than_weights_is_refused() -> None:
    with pytest.raises(ValueError, match="float32 weights do not survive a wire of bfloat16"):
        RunConfig(precision="fp32", param_wire_dtype="bfloat16")
    with pytest.raises(ValueError, match="--dtype float64 and --precision bf16: give one of them"):
        RunConfig(dtype="float64", precision="bf16")


@pytest.mark.parametrize("world_size", [4])
def test_fp32_reduction_of_bf16_weights_sends_six_bytes_in_zero1(train: Any) -> None:
    outcome = train(strategy="zero1", precision="bf16", reduce_dtype="float32", hidden=(4,))
    sent = sum(sum(report.traffic.by_iteration[2].sent.values()) for report in outcome.reports)
    num_params = sum(weight.size for weight in outcome.weights)
    assert sent == 6 * 3 * num_params  # all ranks together: 6 f(N) Ψ each


def compared(toy: Dataset, **chosen: Any) -> tuple[RunConfig, Comparison]:
    config = RunConfig(**{"hidden": (4, 3), "iterations": 3, "batch_size": 11} | chosen)

    def body(transport: Transport) -> Comparison:
        return compare(
            config, toy, transport, run_one=lambda one: run(one, toy, transport, audit_gradients=True)
        )

    return config, run_threads(2, body)[0]


@pytest.mark.on_threads
@pytest.mark.parametrize(
    "dtypes",
    [
        {"reduce_dtype": "bfloat16"},
        {"grad_dtype": "float16"},
        {"dtype": "float64", "reduce_dtype": "float32"},
        {"dtype": "float64", "grad_dtype": "bfloat16"},
    ],
)
def test_a_comparison_allows_for_the_coarsest_dtype(toy: Dataset, dtypes: dict[str, str]) -> None:
    config, found = compared(toy, **dtypes)
    assert not any(found.faults(config).values())


@pytest.mark.on_threads
def test_a_comparison_judges_the_gradient_of_the_first_update_that_was_made(
    toy: Dataset, monkeypatch: Any
) -> None:
    """A loss scale that is too large at first has the ranks skip until it fits."""
    monkeypatch.setattr("zero_emulator.strategies.base.LossScale", partial(LossScale, value=2.0**24))
    config, found = compared(toy, precision="fp16", iterations=12, lr=1e-3)
    outcomes = found.outcomes.values()
    assert all(1 in outcome.reports[0].skipped for outcome in outcomes)
    assert all(0 < error < 0.1 for error in found.gradient_errors.values())
    assert not any(found.faults(config).values())
    partition = config.partition(toy, 2)
    assert [faults(outcome.config, partition, outcome) for outcome in outcomes] == [[]] * len(PLAIN)


@pytest.mark.on_threads
def test_a_comparison_without_an_update_proves_nothing(toy: Dataset, monkeypatch: Any) -> None:
    monkeypatch.setattr("zero_emulator.strategies.base.LossScale", partial(LossScale, value=2.0**24))
    config, found = compared(toy, precision="fp16", iterations=1)
    assert all(any("no update" in fault for fault in apart) for apart in found.faults(config).values())


@pytest.mark.on_threads
def test_a_loss_scale_that_is_not_taken_out_ends_far_from_serial_training(
    toy: Dataset, monkeypatch: Any
) -> None:
    update = LayerParams.update
    monkeypatch.setattr(LayerParams, "update", lambda self, iteration, scale: update(self, iteration, 1.0))
    config, found = compared(toy, precision="fp16", optimizer="sgd", lr=1e-3)
    assert all(
        any("the weights end off" in fault for fault in apart) for apart in found.faults(config).values()
    )


@pytest.mark.on_threads
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_comparison_in_narrow_dtypes_whose_last_update_diverges_fails(toy: Dataset, precision: str) -> None:
    config, found = compared(toy, precision=precision, lr=1e308, iterations=1)
    assert all(found.faults(config).values())
