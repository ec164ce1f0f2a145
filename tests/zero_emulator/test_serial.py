from typing import Any, NamedTuple

import numpy as np
import pytest

from zero_emulator.clipping import square_sum
from zero_emulator.layout import Array, Empty
from zero_emulator.losses import LOSSES, LossFunction, mean_squared_error, softmax_cross_entropy
from zero_emulator.metrics import accuracy
from zero_emulator.model import Linear, build_mlp, initial_parameters
from zero_emulator.optimizers import SGD, Adam, Optimizer
from zero_emulator.serial import loss_and_gradients, train_serially

LAYERS = build_mlp([2, 16, 2])


def quadrants(rows: int) -> tuple[Array, Array]:
    """Points of the plane; their class says whether their coordinates have the same sign."""
    x = np.random.default_rng(0).standard_normal((rows, 2))
    return x, (x[:, 0] * x[:, 1] > 0).astype(np.int64)


def moved(
    optimizer: Optimizer, loss: LossFunction, batches: list[tuple[Array, Array]], **options: Any
) -> list[Array]:
    """How far training moves the parameters."""
    parameters = initial_parameters(LAYERS, 1, np.float64)
    start = [params.copy() for params in parameters]
    train_serially(LAYERS, parameters, optimizer, loss, batches, **options)
    return [params - before for params, before in zip(parameters, start, strict=True)]


def test_training_learns_what_no_line_can_separate() -> None:
    x, y = quadrants(200)
    parameters = initial_parameters(LAYERS, 1, np.float64)
    losses = train_serially(LAYERS, parameters, Adam(0.05), softmax_cross_entropy, [(x, y)] * 100)
    assert len(losses) == 100
    assert losses[-1] < 0.2 < losses[0]
    assert accuracy(LAYERS, parameters, x, y) > 0.95


def test_training_fits_a_function() -> None:
    x, _ = quadrants(64)
    y = np.column_stack([x[:, 0] + x[:, 1], np.abs(x[:, 0])])
    parameters = initial_parameters(LAYERS, 1, np.float64)
    losses = train_serially(LAYERS, parameters, SGD(0.05, 0.9), mean_squared_error, [(x, y)] * 100)
    assert losses[-1] < 0.05 * losses[0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("micro_batches", [2, 3, 7, 9])
def test_uneven_micro_batches_give_the_gradient_of_the_whole_batch(loss: str, micro_batches: int) -> None:
    """SGD with a rate of 1 moves the parameters by the gradient, and hides no mistake in its scale."""
    x, y = quadrants(7)
    batches = [(x, y if loss == "cross_entropy" else x)]
    whole = moved(SGD(1.0), LOSSES[loss], batches)
    parts = moved(SGD(1.0), LOSSES[loss], batches, micro_batches=micro_batches)
    for expected, actual in zip(whole, parts, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-14)


def test_the_loss_is_the_mean_over_the_batch_for_any_micro_batches() -> None:
    x, y = quadrants(7)
    for micro_batches in (1, 3):
        parameters = initial_parameters(LAYERS, 1, np.float64)
        expected, _ = loss_and_gradients(LAYERS, parameters, softmax_cross_entropy, x, y, global_count=7)
        losses = train_serially(
            LAYERS, parameters, SGD(0.1), softmax_cross_entropy, [(x, y)], micro_batches=micro_batches
        )
        assert losses == pytest.approx([expected], rel=1e-14)


def test_clipping_limits_the_norm_over_all_layers_and_keeps_the_direction() -> None:
    batches = [quadrants(7)]
    free = moved(SGD(1.0), softmax_cross_entropy, batches)
    norm = sum(map(square_sum, free)) ** 0.5
    clipped = moved(SGD(1.0), softmax_cross_entropy, batches, max_norm=norm / 2)
    for expected, actual in zip(free, clipped, strict=True):
        np.testing.assert_allclose(actual, expected / 2, rtol=1e-5, atol=1e-12)


def test_iterations_are_counted_across_batches() -> None:
    """A constant gradient moves Adam by exactly lr an iteration, if bias correction follows the counter."""
    x, y = np.ones((1, 2)), np.full((1, 2), 1e9)  # so far away that the gradient stays as it is
    (layer,) = layers = build_mlp([2, 2])
    parameters = initial_parameters(layers, 1, np.float64)
    start = parameters[0].copy()
    train_serially(layers, parameters, Adam(0.1), mean_squared_error, [(x, y)] * 5)
    np.testing.assert_allclose(parameters[0] - start, np.full(layer.layout.size, 0.5), rtol=1e-6)


def test_float32_training_stays_float32() -> None:
    x, y = quadrants(7)
    parameters = initial_parameters(LAYERS, 1, np.float32)
    batches = [(x.astype(np.float32), y)]
    losses = train_serially(LAYERS, parameters, Adam(0.1), softmax_cross_entropy, batches, max_norm=0.1)
    assert {params.dtype for params in parameters} == {np.dtype(np.float32)}
    assert all(type(loss) is float for loss in losses)


def test_accuracy_is_the_fraction_of_largest_outputs_that_are_right() -> None:
    (layer,) = layers = build_mlp([2, 2])
    params = np.zeros(layer.layout.size)
    layer.layout.views(params)["weight"][...] = np.eye(2)  # outputs = x
    x = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 2.0]])
    assert accuracy(layers, [params], x, np.array([0, 1, 0, 0])) == 0.75
    with pytest.raises(ValueError, match="0 samples"):
        accuracy(layers, [params], x[:0], np.empty(0, int))


class Charged(NamedTuple):
    """What a Linear has saved, and a loss of its own."""

    x: Array
    y: Array
    loss: float


class Charging(Linear):
    """Costs 3 a row."""

    def forward(self, params: Array, x: Array, empty: Empty = np.empty, *, global_count: int = 1) -> Any:
        y, saved = super().forward(params, x, empty)
        return y, Charged(*saved, loss=3 * len(x) / global_count)


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_a_loss_that_a_layer_has_of_its_own_is_a_mean_over_the_batch_too(micro_batches: int) -> None:
    x, y = quadrants(7)
    losses = [
        train_serially(
            layers,
            initial_parameters(layers, 1, np.float64),
            SGD(0.1),
            softmax_cross_entropy,
            [(x, y)],
            micro_batches=micro_batches,
        )[0]
        for layers in ([Linear(2, 2, relu=False)], [Charging(2, 2, relu=False)])
    ]
    assert losses[1] - losses[0] == pytest.approx(3, rel=1e-14)
