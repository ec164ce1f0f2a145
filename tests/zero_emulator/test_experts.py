"""Experts in one process: their arithmetic, their gradients, and models that have them."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from zero_emulator.dtypes import dtype_of
from zero_emulator.experts import ALONE, Experts, ExpertSettings, Router, build_expert_mlp, part
from zero_emulator.layer import Layer
from zero_emulator.layout import Array
from zero_emulator.losses import softmax_cross_entropy
from zero_emulator.metrics import accuracy
from zero_emulator.model import build_mlp, initial_parameters
from zero_emulator.optimizers import Adam, Muon
from zero_emulator.serial import loss_and_gradients, train_serially

SETTINGS = {
    "top-1": ExpertSettings(3, 1, 2),
    "top-2": ExpertSettings(3, 2, 2),
    "top-1 balanced": ExpertSettings(3, 1, 2, balance=0.3),
    "top-2 balanced": ExpertSettings(3, 2, 2, balance=0.3),
    "top-1 dropping": ExpertSettings(3, 1, 2, capacity=0.7, balance=0.3),
    "top-2 dropping": ExpertSettings(3, 2, 2, capacity=0.7, balance=0.3),
}


def uneven(seed: int, layers: Any) -> list[Array]:
    """Parameters with biases that are not zero, so that no ReLU is at its edge."""
    rng = np.random.default_rng(seed)
    parameters = initial_parameters(layers, seed, np.float64)
    return [params + 0.1 * rng.standard_normal(params.size) for params in parameters]


def loss_of(layers: Any, parameters: list[Array], x: Array, y: Array) -> tuple[float, list[Array]]:
    return loss_and_gradients(layers, parameters, softmax_cross_entropy, x, y, global_count=9)


def held_shares(layers: Any, parameters: list[Array], x: Array) -> float:
    """The balancing losses of a forward pass."""
    total = 0.0
    for layer, params in zip(layers, parameters, strict=True):
        x, kept = layer.forward(params, x, global_count=9)
        total += kept.loss
    return total


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_gradients_agree_with_finite_differences(settings: ExpertSettings) -> None:
    layers = build_expert_mlp([2, 3, 2], settings)
    parameters = uneven(3, layers)
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((8, 2)), rng.integers(0, 2, 8)
    _, gradients = loss_of(layers, parameters, x, y)
    assert (held_shares(layers, parameters, x) > 0) == (settings.balance > 0)
    h = 1e-6
    for params, gradient in zip(parameters, gradients, strict=True):
        assert gradient.any()
        expected = np.empty_like(gradient)
        for index in range(params.size):
            kept = params[index]
            params[index] = kept + h
            up, _ = loss_of(layers, parameters, x, y)
            params[index] = kept - h
            down, _ = loss_of(layers, parameters, x, y)
            params[index] = kept
            expected[index] = (up - down) / (2 * h)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)


def by_hand() -> tuple[Experts, Array, Array]:
    """Two experts that double and that negate what is positive, and three rows for them."""
    layer = Experts(1, 1, 2, range(2))
    params = np.array([1.0, 0.0, 2.0, 0.0, 1.0, 0.0, -1.0, 0.5])  # w1, b1, w2, b2 of each
    return layer, params, np.array([[3.0, 0.5, 0.0], [4.0, 0.25, 0.75], [-1.0, 0.0, 0.5]])


def test_outputs_and_gradients_are_those_worked_out_by_hand() -> None:
    layer, params, x = by_hand()
    y, saved = layer.forward(params, x)
    # expert 0 gives 6 and 8, expert 1 gives -3.5 and, for it passes nothing of -1, 0.5
    assert y.ravel().tolist() == [3 + 0.5 * 6, 4 + 0.25 * 8 + 0.75 * -3.5, -1 + 0.5 * 0.5]
    gradient = np.full_like(params, np.nan)
    grad_x = layer.backward(params, saved, np.array([[1.0], [2.0], [4.0]]), gradient)
    assert grad_x is not None
    assert grad_x.tolist() == [
        [1 + 0.5 * 2, 6, 0],
        [2 + 2 * (0.25 * 2 - 0.75), 2 * 8, 2 * -3.5],
        [4, 0, 4 * 0.5],
    ]
    first = [0.5 * 2 * 3 + 0.5 * 2 * 4, 0.5 * 2 + 0.5 * 2, 0.5 * 3 + 0.5 * 4, 0.5 + 0.5]
    assert gradient.tolist() == [*first, 1.5 * -1 * 4, -1.5, 1.5 * 4, 1.5 + 2]


def test_an_expert_that_nobody_chooses_has_a_zero_gradient() -> None:
    layer, params, x = by_hand()
    _, saved = layer.forward(params, x[:1])
    gradient = np.full_like(params, np.nan)
    layer.backward(params, saved, np.ones((1, 1)), gradient)
    assert gradient[:4].any()
    assert not gradient[4:].any()


def test_no_rows_leave_a_zero_gradient() -> None:
    layer, params, x = by_hand()
    y, saved = layer.forward(params, x[:0])
    gradient = np.full_like(params, np.nan)
    grad_x = layer.backward(params, saved, y, gradient)
    assert grad_x is not None
    assert (y.shape, grad_x.shape) == ((0, 1), (0, 3))
    assert not gradient.any()


def test_parameters_may_be_dropped_between_forward_and_backward() -> None:
    for layer in build_expert_mlp([4, 6, 3], SETTINGS["top-2 dropping"])[1:3]:
        params = layer.initial(np.random.default_rng(0), np.float64)
        regathered, x = params.copy(), np.abs(np.random.default_rng(1).standard_normal((8, layer.inputs)))
        expected, gradient = np.empty_like(params), np.empty_like(params)
        y, saved = layer.forward(params, x)
        layer.backward(params, saved, y, expected)
        _, saved = layer.forward(params, x)
        params[:] = np.nan
        layer.backward(regathered, saved, y, gradient)
        np.testing.assert_array_equal(gradient, expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_dtype_stays_from_the_parameters_to_the_gradient(dtype: str) -> None:
    layer, params, x = by_hand()
    params, x = params.astype(dtype_of(dtype)), x.astype(dtype_of(dtype))
    y, saved = layer.forward(params, x)
    gradient = np.empty_like(params)
    grad_x = layer.backward(params, saved, y, gradient)
    assert grad_x is not None
    assert y.dtype == gradient.dtype == grad_x.dtype == dtype_of(dtype)


def test_padding_stays_zero() -> None:
    layer, params, x = by_hand()
    padded = layer.padded("even", 3)
    assert padded.padding == (0,) * 7 + (1,)
    params, gradient = np.append(params, 0.0), np.full(9, np.nan)
    _, saved = padded.forward(params, x)
    padded.backward(params, saved, np.ones((3, 1)), gradient)
    assert gradient[8] == 0
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_a_part_draws_its_slice_of_the_whole_layer_and_leaves_later_layers_alone(degree: int) -> None:
    layers = build_expert_mlp([4, 6, 5, 3], ExpertSettings(4, 2, 3))
    whole = initial_parameters(layers, 5, np.float64)
    for position in range(degree):
        mine = part(layers, position, degree, ALONE)
        for layer, params, all_params in zip(
            mine, initial_parameters(mine, 5, np.float64), whole, strict=True
        ):
            place = layer.place if isinstance(layer, Experts) else slice(None)
            np.testing.assert_array_equal(params, all_params[place])


def test_a_block_stands_behind_every_hidden_layer() -> None:
    layers = build_expert_mlp([4, 6, 5, 3], ExpertSettings(4, 2, 7, 1.5, 0.1))
    first, second, last = build_mlp([4, 6, 5, 3])
    assert layers == (
        first,
        Router(6, 4, 2, 1.5, 0.1),
        Experts(6, 7, 4, range(4)),
        second,
        Router(5, 4, 2, 1.5, 0.1),
        Experts(5, 7, 4, range(4)),
        last,
    )
    assert all(one.outputs == other.inputs for one, other in pairwise(layers))
    assert build_expert_mlp([4, 3]) == build_mlp([4, 3])


def test_tensors_are_named_by_the_number_of_their_expert() -> None:
    third = part([Experts(2, 3, 4, range(4))], 3, 4, ALONE)[0]
    assert third.shapes == (
        ("expert3.w1", (2, 3)),
        ("expert3.b1", (3,)),
        ("expert3.w2", (3, 2)),
        ("expert3.b2", (2,)),
    )


@pytest.mark.parametrize("optimizer", [Adam(0.05), Muon(0.05)], ids=["adam", "muon"])
def test_a_model_with_experts_learns(optimizer: Any) -> None:
    x = np.random.default_rng(0).standard_normal((200, 2))
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    layers = build_expert_mlp([2, 4, 2], ExpertSettings(4, 2, 8, capacity=2.0, balance=0.01))
    parameters = initial_parameters(layers, 1, np.float64)
    losses = train_serially(
        layers, parameters, optimizer, softmax_cross_entropy, [(x, y)] * 40, micro_batches=2
    )
    assert losses[-1] < 0.5 < losses[0]
    assert accuracy(layers, parameters, x, y) > 0.8


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"num_experts": 1}, "--experts 1: give 2 to 1024"),
        ({"num_experts": 1025}, "--experts 1025: give 2 to 1024"),
        ({"top_k": 0}, "--top-k 0: a row chooses 1 or 2"),
        ({"top_k": 3}, "--top-k 3: a row"),
        ({"hidden": 0}, "--expert-hidden 0: give 1 or more"),
        ({"capacity": 0.0}, "--capacity 0: give a number above 0"),
        ({"capacity": float("nan")}, "--capacity nan"),
        ({"balance": -1.0}, "--balance -1: give a number of 0 or more"),
        ({"balance": float("inf")}, "--balance inf"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(ExpertSettings(4, 2, 8), **wrong)


def test_experts_without_a_hidden_layer_are_refused() -> None:
    with pytest.raises(ValueError, match="--experts 4 behind each hidden layer, and there is none"):
        build_expert_mlp([4, 3], ExpertSettings(4, 2, 8))


def test_experts_that_do_not_divide_are_refused() -> None:
    layers: list[Layer] = [Experts(2, 3, 4, range(4))]
    with pytest.raises(ValueError, match="4 experts do not split over 3 ranks: take a divisor of 4"):
        part(layers, 0, 3, ALONE)
    with pytest.raises(ValueError, match="no position 2 among 2"):
        part(layers, 2, 2, ALONE)


def test_a_part_whose_peers_do_not_have_the_rest_is_refused() -> None:
    layer = Experts(2, 3, 4, range(2))
    params = layer.initial(np.random.default_rng(0), np.float64)
    with pytest.raises(ValueError, match="experts 0 to 1 are here, not part 0 of 4 experts over 1 ranks"):
        layer.forward(params, np.ones((1, 6)))
