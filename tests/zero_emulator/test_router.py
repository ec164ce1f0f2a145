"""The router alone: choices, gates, what is dropped, and the loss that balances."""

from typing import Any

import numpy as np
import pytest

from zero_emulator.dtypes import dtype_of
from zero_emulator.experts.gates import choose
from zero_emulator.experts.router import Router
from zero_emulator.experts.routing import route
from zero_emulator.layout import Array

LOGITS = np.log([[6.0, 3.0, 1.0], [1.0, 8.0, 1.0], [5.0, 3.0, 2.0], [4.0, 1.0, 5.0]])
"""Rows of an identity router: the probabilities are a tenth of these numbers."""


def forward(x: Array = LOGITS, **settings: Any) -> tuple[Array, Any]:
    """Of a router whose logits are its inputs: gates, and what is saved."""
    router = Router(3, 3, **settings)
    y, saved = router.forward(np.eye(3, dtype=x.dtype).ravel(), x)
    assert y[:, :3].tobytes() == x.tobytes()
    return y[:, 3:], saved


def test_one_choice_has_its_probability_as_the_gate() -> None:
    gates, saved = forward()
    expected = [[0.6, 0, 0], [0, 0.8, 0], [0.5, 0, 0], [0, 0, 0.5]]
    np.testing.assert_allclose(gates, expected, rtol=1e-14)
    assert saved.routing.counts.tolist() == saved.routing.kept.tolist() == [[2, 1, 1]]
    assert saved.loss == 0


def test_the_gates_of_two_choices_sum_to_one() -> None:
    gates, saved = forward(np.delete(LOGITS, 1, axis=0), top_k=2)
    np.testing.assert_allclose(gates, [[2 / 3, 1 / 3, 0], [5 / 8, 3 / 8, 0], [4 / 9, 0, 5 / 9]], rtol=1e-14)
    assert saved.routing.counts.tolist() == [[3, 2, 1]]


def test_of_equal_experts_the_lower_ones_are_chosen() -> None:
    probabilities = np.array([[0.25, 0.25, 0.25, 0.25], [0.1, 0.4, 0.1, 0.4]])
    assert choose(probabilities, 1).tolist() == [[True, False, False, False], [False, True, False, False]]
    assert choose(probabilities, 2).tolist() == [[True, True, False, False], [False, True, False, True]]
    many = np.repeat([[0.0, 0.02]], 50, axis=1)  # a sort that is not stable shuffles so many
    assert np.flatnonzero(choose(many, 2)).tolist() == [50, 51]


def test_a_full_expert_drops_the_later_rows_and_nothing_else_changes() -> None:
    expected, saved = forward(top_k=2)
    assert saved.routing.counts.tolist() == [[4, 3, 1]]
    np.testing.assert_array_equal(
        forward(top_k=2, capacity=1.2)[0], expected
    )  # ceil(1.2 * 2 * 4 / 3) = 4 fit
    gates, saved = forward(top_k=2, capacity=0.7)  # 0.7 * 2 * 4 / 3: 2
    expected[2:, 0] = expected[2, 1] = 0
    np.testing.assert_array_equal(gates, expected)
    assert saved.routing.dropped.tolist() == [[2, 1, 0]]


def test_rows_are_dropped_in_the_global_order_over_the_ranks() -> None:
    counts = np.array([[1, 2], [0, 0], [3, 0], [2, 2]])
    routing = route(counts, top_k=1, capacity=0.8)  # 4 of 10 rows an expert
    assert routing.kept.tolist() == [[1, 2], [0, 0], [3, 0], [0, 2]]
    assert routing.dropped.sum() == 2
    assert route(counts, top_k=2, capacity=0.8).kept.sum(axis=0).tolist() == [4, 4]  # of 5 samples


@pytest.mark.parametrize(("capacity", "room"), [(1.1, 11), (1.11, 12), (1e-300, 1), (1e308, 20)])
def test_a_capacity_is_the_number_that_was_written(capacity: float, room: int) -> None:
    """In floating point 1.1 of 10 rows are more than 11, and 1e308 of them infinite."""
    assert route(np.array([[20, 0]]), top_k=1, capacity=capacity).kept.tolist() == [[room, 0]]


def test_the_balancing_loss_is_as_switch_transformers_defines_it() -> None:
    """n Σ f P by hand: f is 2/4, 1/4, 1/4 before drops, P the mean probabilities 0.4, 0.375, 0.225."""
    expected = 0.1 * 3 * (0.5 * 0.4 + 0.25 * 0.375 + 0.25 * 0.225)
    for capacity in (None, 0.5):
        router = Router(3, 3, 1, capacity, balance=0.1)
        _, saved = router.forward(np.eye(3).ravel(), LOGITS, global_count=4)
        assert saved.loss == pytest.approx(expected, rel=1e-14)
        _, saved = router.forward(np.eye(3).ravel(), LOGITS, global_count=8)
        assert saved.loss == pytest.approx(expected / 2, rel=1e-14)


@pytest.mark.parametrize("top_k", [1, 2])
def test_gradients_agree_with_finite_differences_whatever_comes_back_to_gates_that_are_zero(
    top_k: int,
) -> None:
    """A dropped gate is 0 whatever the probabilities, so its own gradient goes nowhere."""
    router = Router(3, 3, top_k, capacity=0.8, balance=0.1)
    rng = np.random.default_rng(6)
    params, x = rng.standard_normal(9), rng.standard_normal((6, 3))
    y, saved = router.forward(params, x, global_count=7)
    assert saved.routing.dropped.any()
    grad_y, gradient = rng.standard_normal(y.shape), np.empty(9)
    grad_x = router.backward(params, saved, grad_y, gradient)

    def slopes(changed: Array) -> Array:
        found = np.empty(changed.shape)
        for index in np.ndindex(*changed.shape):
            ends = []
            for step in (1e-6, -2e-6):
                changed[index] += step
                y, saved = router.forward(params, x, global_count=7)
                ends.append(np.sum(y * grad_y) + saved.loss)
            changed[index] += 1e-6
            found[index] = (ends[0] - ends[1]) / 2e-6
        return found

    np.testing.assert_allclose(gradient, slopes(params), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(grad_x, slopes(x), rtol=1e-6, atol=1e-8)


def test_the_loss_scale_reaches_the_gradient_of_the_balancing_loss() -> None:
    router = Router(3, 3, 2, balance=0.1)
    params = np.eye(3).ravel() + 0.1
    y, saved = router.forward(params, LOGITS)
    grad_y = np.random.default_rng(0).standard_normal(y.shape)
    plain, scaled = np.empty_like(params), np.empty_like(params)
    grad_x = router.backward(params, saved, grad_y, plain)
    scaled_x = router.backward(params, saved, 64 * grad_y, scaled, loss_scale=64.0)
    assert grad_x is not None
    np.testing.assert_array_equal(scaled, 64 * plain)
    np.testing.assert_array_equal(scaled_x, 64 * grad_x)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("top_k", [1, 2])
def test_a_gate_is_zero_where_nothing_was_kept_and_only_there(dtype: str, top_k: int) -> None:
    """Even where the second probability underflows, and where all are NaN: ranks count on the kept."""
    x = np.array([[0.0, 2000.0, -2000.0], [np.nan, 0.0, 0.0], [3.0, 2.0, 1.0]], dtype_of(dtype))
    with np.errstate(invalid="ignore"):
        gates, saved = forward(x, top_k=top_k, capacity=0.9)
    assert gates.dtype == x.dtype
    np.testing.assert_array_equal((gates != 0).sum(axis=0), saved.routing.kept[0])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_dtype_stays(dtype: str) -> None:
    router = Router(3, 3, 2, capacity=1.0, balance=0.1)
    params = router.initial(np.random.default_rng(0), dtype_of(dtype))
    y, saved = router.forward(params, LOGITS.astype(dtype_of(dtype)))
    gradient = np.empty_like(params)
    grad_x = router.backward(params, saved, y, gradient)
    assert grad_x is not None
    assert y.dtype == gradient.dtype == grad_x.dtype == dtype_of(dtype)


def test_no_rows_have_no_loss_and_a_zero_gradient() -> None:
    router = Router(3, 3, 2, capacity=1.0, balance=0.1)
    y, saved = router.forward(np.eye(3).ravel(), LOGITS[:0])
    gradient = np.full(9, np.nan)
    grad_x = router.backward(np.eye(3).ravel(), saved, y, gradient)
    assert grad_x is not None
    assert (y.shape, grad_x.shape, saved.loss) == ((0, 6), (0, 3), 0)
    assert not gradient.any()


def test_padding_stays_zero_and_the_first_layer_goes_without_grad_x() -> None:
    router = Router(3, 3).padded("even", 4)
    assert router.padding == (3,)
    params = router.initial(np.random.default_rng(0), np.float64)
    y, saved = router.forward(params, LOGITS)
    gradient = np.full_like(params, np.nan)
    assert router.backward(params, saved, y, gradient, needs_grad_x=False) is None
    assert not params[9:].any()
    assert not gradient[9:].any()
    assert np.isfinite(gradient).all()


def test_rows_of_another_dtype_than_the_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="x is float32 and the parameters are float64"):
        Router(3, 3).forward(np.eye(3).ravel(), LOGITS.astype(np.float32))
