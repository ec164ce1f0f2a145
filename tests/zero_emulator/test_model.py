from typing import Any

import numpy as np
import pytest

from zero_emulator.layout import Array
from zero_emulator.losses import LOSSES
from zero_emulator.model import Linear, build_mlp, initial_parameters
from zero_emulator.serial import loss_and_gradients

LAYER = Linear(3, 2, relu=True)


def batch(rows: int, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(1).standard_normal((rows, LAYER.inputs)).astype(dtype)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_agree_with_finite_differences(loss: str) -> None:
    rng = np.random.default_rng(2)
    layers = build_mlp([4, 5, 3, 2])
    parameters = initial_parameters(layers, seed=3, dtype=np.float64)
    for params in parameters:
        params += 0.1 * rng.standard_normal(params.size)  # biases that are not zero
    x = rng.standard_normal((6, 4))
    y = rng.integers(0, 2, 6) if loss == "cross_entropy" else rng.standard_normal((6, 2))
    _, gradients = loss_and_gradients(layers, parameters, LOSSES[loss], x, y, global_count=7)

    def loss_with(params: Array, index: int, step: float) -> float:
        kept = params[index]
        params[index] = kept + step
        value, _ = loss_and_gradients(layers, parameters, LOSSES[loss], x, y, global_count=7)
        params[index] = kept
        return value

    h = 1e-6
    for params, gradient in zip(parameters, gradients, strict=True):
        expected = [
            (loss_with(params, i, h) - loss_with(params, i, -h)) / (2 * h) for i in range(params.size)
        ]
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)


def test_grad_x_agrees_with_finite_differences() -> None:
    params = LAYER.initial(np.random.default_rng(0), np.float64)
    x, grad_y = batch(4), np.random.default_rng(4).standard_normal((4, LAYER.outputs))
    _, saved = LAYER.forward(params, x)
    grad_x = LAYER.backward(params, saved, grad_y, np.empty_like(params))
    assert grad_x is not None
    for index in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[index] = 1e-6
        up, down = LAYER.forward(params, x + step)[0], LAYER.forward(params, x - step)[0]
        assert grad_x[index] == pytest.approx(np.sum((up - down) * grad_y) / 2e-6, abs=1e-8)


def test_backward_overwrites_a_poisoned_gradient_buffer_and_reads_grad_y_only() -> None:
    params = LAYER.initial(np.random.default_rng(0), np.float64)
    _, saved = LAYER.forward(params, batch(4))
    clean, poisoned = np.zeros_like(params), np.full_like(params, np.nan)
    grad_y = np.ones((4, LAYER.outputs))
    LAYER.backward(params, saved, grad_y, clean)
    LAYER.backward(params, saved, grad_y, poisoned)
    np.testing.assert_array_equal(poisoned, clean)
    assert (grad_y == 1).all()


def test_an_empty_batch_has_a_zero_gradient() -> None:
    params = LAYER.initial(np.random.default_rng(0), np.float32)
    y, saved = LAYER.forward(params, batch(0, np.float32))
    gradient = np.full_like(params, np.nan)
    grad_x = LAYER.backward(params, saved, np.empty_like(y), gradient)
    assert grad_x is not None
    assert grad_x.shape == (0, LAYER.inputs)
    assert not gradient.any()


def test_parameters_may_be_dropped_between_forward_and_backward() -> None:
    params = LAYER.initial(np.random.default_rng(0), np.float64)
    regathered = params.copy()
    grad_y = np.ones((4, LAYER.outputs))
    expected, gradient = np.empty_like(params), np.empty_like(params)
    _, saved = LAYER.forward(params, batch(4))
    expected_x = LAYER.backward(params, saved, grad_y, expected)

    _, saved = LAYER.forward(params, batch(4))
    assert not any(np.shares_memory(params, array) for array in saved)
    params[:] = np.nan
    grad_x = LAYER.backward(regathered, saved, grad_y, gradient)
    np.testing.assert_array_equal(gradient, expected)
    np.testing.assert_array_equal(grad_x, expected_x)


def test_the_first_layer_goes_without_grad_x() -> None:
    params = LAYER.initial(np.random.default_rng(0), np.float64)
    y, saved = LAYER.forward(params, batch(4))
    assert LAYER.backward(params, saved, y, np.empty_like(params), needs_grad_x=False) is None


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_stays_from_the_parameters_to_the_gradient(loss: str, dtype: Any) -> None:
    params = LAYER.initial(np.random.default_rng(0), dtype)
    y, saved = LAYER.forward(params, batch(4, dtype))
    targets = np.array([0, 1, 1, 0]) if loss == "cross_entropy" else np.zeros((4, 2), np.float64)
    _, grad_y = LOSSES[loss](y, targets, 4)
    grad_x = LAYER.backward(params, saved, grad_y, np.empty_like(params))
    assert grad_x is not None
    assert {array.dtype for array in (params, y, *saved, grad_y, grad_x)} == {np.dtype(dtype)}


def test_a_batch_of_another_dtype_than_the_parameters_is_refused() -> None:
    with pytest.raises(ValueError, match="x is float64 and the parameters are float32"):
        LAYER.forward(LAYER.initial(np.random.default_rng(0), np.float32), batch(4))


def test_every_layer_but_the_last_has_a_relu() -> None:
    assert build_mlp([4, 3, 2]) == (Linear(4, 3, relu=True), Linear(3, 2, relu=False))


@pytest.mark.parametrize("sizes", [[], [4], [4, 0, 2]])
def test_sizes_that_make_no_mlp_are_refused(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="give two or more, each 1 or more"):
        build_mlp(sizes)


def test_the_seed_alone_fixes_the_parameters_and_every_dtype_rounds_the_same_numbers() -> None:
    layers = build_mlp([4, 3, 2])
    wide, again = (initial_parameters(layers, 5, np.float64) for _ in range(2))
    narrow, other = initial_parameters(layers, 5, np.float32), initial_parameters(layers, 6, np.float64)
    for params, same, rounded, different in zip(wide, again, narrow, other, strict=True):
        np.testing.assert_array_equal(params, same)
        np.testing.assert_array_equal(params.astype(np.float32), rounded)
        assert not np.array_equal(params, different)


def test_initial_weights_have_variance_two_over_inputs_and_biases_are_zero() -> None:
    layer = Linear(200, 300, relu=True)
    views = layer.layout.views(layer.initial(np.random.default_rng(0), np.float64))
    assert np.var(views["weight"]) == pytest.approx(2 / 200, rel=0.02)
    assert not views["bias"].any()
