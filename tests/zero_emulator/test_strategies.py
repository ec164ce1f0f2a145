"""The strategies against each other, bit for bit, and against serial training, within rounding."""

from typing import Any

import numpy as np
import pytest

from zero_emulator.batches import global_batches
from zero_emulator.compare import must_agree
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.differences import largest_difference
from zero_emulator.losses import LOSSES
from zero_emulator.model import initial_parameters
from zero_emulator.reference import serial_run
from zero_emulator.run import Outcome, run
from zero_emulator.serial import loss_and_gradients, train_serially
from zero_emulator.theory import PLAIN

OPTIMIZERS = {
    "momentum": {"optimizer": "sgd", "momentum": 0.9},
    "adam": {"optimizer": "adam"},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.1},
    "muon": {"optimizer": "muon"},
    "clipped": {"optimizer": "sgd", "momentum": 0.9, "clip": 0.05},
}

SHAPES = {
    "uneven blocks": {"hidden": (4, 3)},
    "blocks of nothing": {"hidden": (2, 1)},  # layers of 12, 3 and 6 parameters
    "one layer": {"hidden": ()},
    "rows that do not divide": {"batch_size": 7, "micro_batches": 3},
    "fewer rows than ranks": {"batch_size": 1},
    "more micro-batches than rows": {"batch_size": 2, "micro_batches": 4},
}

ENDS = ("ddp", "zero3")
"""For comparisons with serial training: every other strategy has the bits of one of them."""


def assert_same_bits(left: Outcome, right: Outcome) -> None:
    for one, other in zip(left.weights, right.weights, strict=True):
        assert one.tobytes() == other.tobytes()
    assert left.digests == right.digests
    assert left.losses == right.losses


def assert_agree(train: Any, micro_batches: int, **settings: Any) -> None:
    for first, *others in must_agree(RunConfig(micro_batches=micro_batches)):
        expected = train(first, micro_batches=micro_batches, **settings)
        assert np.isfinite(np.concatenate(expected.weights)).all()  # no poison
        assert all(len(set(digests)) == 1 for digests in expected.digests.values())
        for other in others:
            assert_same_bits(train(other, micro_batches=micro_batches, **settings), expected)


def test_all_strategies_give_the_same_bits(train: Any) -> None:
    assert_agree(train, 1, hidden=(3,), optimizer="adamw", weight_decay=0.1, clip=0.05)


@pytest.mark.on_threads
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("world_size", [3])
def test_all_optimizers_give_the_same_bits_with_all_strategies(train: Any, optimizer: str) -> None:
    assert_agree(train, 1, **OPTIMIZERS[optimizer])


@pytest.mark.few_sizes
def test_with_micro_batches_those_that_reduce_equally_often_give_the_same_bits(train: Any) -> None:
    assert must_agree(RunConfig(micro_batches=4)) == (("ddp", "zero1"), ("zero2", "zero3"))
    assert_agree(train, 4, hidden=(3,), clip=0.05)


@pytest.mark.on_threads
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("world_size", [1, 4])
def test_no_shape_is_too_odd_for_equal_bits(train: Any, shape: str) -> None:
    assert_agree(train, **{"micro_batches": 1, "hidden": (3,)} | SHAPES[shape])


@pytest.mark.on_threads
@pytest.mark.parametrize("keep_views", ["none", "last", "all"])
@pytest.mark.parametrize("world_size", [3])
def test_neither_kept_views_nor_prefetch_change_a_bit(train: Any, keep_views: str) -> None:
    chosen = {"micro_batches": 2, "clip": 0.05}
    expected = train("zero2", **chosen)
    for prefetch in (0, 1, 5):
        assert_same_bits(train("zero3", keep_views=keep_views, prefetch=prefetch, **chosen), expected)


@pytest.mark.parametrize("strategy", ENDS)
@pytest.mark.parametrize(("optimizer", "micro_batches"), [("adam", 1), ("clipped", 2)])
@pytest.mark.parametrize("world_size", [3])
def test_twelve_iterations_end_where_serial_training_ends(
    train: Any, toy: Dataset, strategy: str, optimizer: str, micro_batches: int
) -> None:
    chosen = OPTIMIZERS[optimizer] | {"micro_batches": micro_batches, "hidden": (3,)}
    outcome = train(strategy, iterations=12, audit_every=12, **chosen)
    assert largest_difference(outcome.weights, serial_run(outcome.config, toy, 1).weights) < 1e-12
    assert outcome.losses[-1] < outcome.losses[0]


@pytest.mark.parametrize(
    ("strategy", "loss", "micro_batches"),
    [("ddp", "mse", 3), ("zero3", "cross_entropy", 1), ("zero3", "mse", 3)],
)
@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_a_step_follows_the_mean_gradient_of_the_whole_batch(
    train: Any, toy: Dataset, strategy: str, loss: str, micro_batches: int
) -> None:
    """SGD with a rate of 1 moves by the gradient: 7 rows on N ranks weigh the same, wherever they are."""
    outcome = train(
        strategy,
        optimizer="sgd", lr=1.0, iterations=1, batch_size=7, loss=loss, micro_batches=micro_batches,
    )  # fmt: skip
    config = outcome.config
    layers = config.partition(toy, 1).layers
    before = initial_parameters(layers, config.seed, config.dtype)
    ((x, y),) = global_batches(config, toy)
    mean, gradients = loss_and_gradients(layers, before, LOSSES[loss], x, y, global_count=7)
    for after, start, gradient in zip(outcome.weights, before, gradients, strict=True):
        np.testing.assert_allclose(start - after, gradient, rtol=0, atol=1e-14)
    assert outcome.losses == pytest.approx([mean], rel=1e-13)


@pytest.mark.parametrize("strategy", ENDS)
@pytest.mark.parametrize("world_size", [3])
def test_every_loss_is_the_serial_one(train: Any, toy: Dataset, strategy: str) -> None:
    outcome = train(strategy, iterations=4, micro_batches=2)
    config = outcome.config
    layers = config.partition(toy, 1).layers
    weights = initial_parameters(layers, config.seed, config.dtype)
    losses = train_serially(
        layers, weights, config.make_optimizer(), LOSSES[config.loss], global_batches(config, toy),
        micro_batches=2,
    )  # fmt: skip
    assert outcome.losses == pytest.approx(losses, rel=1e-13)


@pytest.mark.on_threads
@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize("world_size", [3])
def test_float32_stays_float32_in_all_that_is_kept_and_sent(train: Any, strategy: str) -> None:
    narrow, wide = (train(strategy, dtype=dtype, clip=1.0) for dtype in ("float32", "float64"))
    assert {weight.dtype for weight in narrow.weights} == {np.dtype(np.float32)}
    for small, large in zip(narrow.reports, wide.reports, strict=True):
        assert {kind: 2 * num_bytes for kind, num_bytes in small.persistent.items()} == large.persistent
        assert 2 * small.traffic.sent["training"] == large.traffic.sent["training"]


@pytest.mark.on_threads
@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize("world_size", [3])
def test_the_same_seed_gives_the_same_bits_and_another_one_does_not(train: Any, strategy: str) -> None:
    first = train(strategy, seed=3)
    assert_same_bits(train(strategy, seed=3), first)
    assert train(strategy, seed=4).digests != first.digests


@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize("world_size", [3])
def test_every_rank_ends_with_the_same_full_weights(
    run_ranks: Any, toy: Dataset, settings: dict[str, Any], strategy: str
) -> None:
    config = RunConfig(strategy=strategy, **settings)
    first, *others = run_ranks(lambda comm: run(config, toy, comm.transport))
    for other in others:
        assert_same_bits(other, first)
