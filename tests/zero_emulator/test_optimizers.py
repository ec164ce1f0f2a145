import tracemalloc
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from zero_emulator.layout import Array
from zero_emulator.optimizers import SGD, Adam, AdamW, Rule, make_optimizer
from zero_emulator.pieces import PIECE

EVERY = [SGD(0.1), SGD(0.1, 0.9), Adam(0.1), AdamW(0.1)]

# torch 2.13.0 on a CPU in float64: torch.optim.X([p], lr=0.1, ...), 50 steps with the gradients of
# `gradient_of` from p = linspace(-1, 1, 5).
FROM_TORCH = [
    (
        SGD(0.1, momentum=0.9),
        [
            -0.4259811213500616,
            0.5059631359910612,
            0.5130295253386921,
            0.04841893504680312,
            -0.0010101066998961627,
        ],
    ),
    (
        Adam(0.1),
        [
            -0.9095609037480131,
            -0.047104155863427824,
            0.2823197857443902,
            0.46399232102097593,
            0.5419279804894062,
        ],
    ),
    (
        AdamW(0.1, weight_decay=0.01),
        [
            -0.8635276407608756,
            -0.04281597575015604,
            0.2689299072811683,
            0.4399070120304514,
            0.5133683339356259,
        ],
    ),
]


def gradient_of(iteration: int, size: int) -> Array:
    return np.cos(np.arange(size) + iteration)


def trained(optimizer: Rule, params: Array, iterations: int) -> Array:
    params = params.copy()
    state = optimizer.new_state(params.size, params.dtype)
    for iteration in range(1, iterations + 1):
        grads = gradient_of(iteration, params.size).astype(params.dtype)
        optimizer.update(params, grads, state, iteration)
    return params


@pytest.mark.parametrize(("optimizer", "expected"), FROM_TORCH)
def test_fifty_iterations_agree_with_torch(optimizer: Rule, expected: list[float]) -> None:
    start = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(trained(optimizer, start, 50), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(trained(optimizer, start.astype(np.float32), 50), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adamw_follows_the_plain_formula(decay: float) -> None:
    lr, b1, b2, eps = 0.05, 0.8, 0.95, 0.3  # an eps so large that its place in the formula shows
    p, m, v = np.linspace(-1, 1, 7), np.zeros(7), np.zeros(7)
    ours = trained(AdamW(lr, (b1, b2), eps, weight_decay=decay), p, 10)
    for t in range(1, 11):
        g = gradient_of(t, 7)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        p = p - lr * decay * p - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    np.testing.assert_allclose(ours, p, rtol=0, atol=1e-14)


def test_adam_is_adamw_without_decay() -> None:
    start = np.linspace(-1, 1, 7)
    np.testing.assert_array_equal(
        trained(Adam(0.1), start, 5), trained(AdamW(0.1, weight_decay=0.0), start, 5)
    )


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_follows_the_plain_formula(momentum: float) -> None:
    p, buf = np.linspace(-1, 1, 7), np.zeros(7)
    ours = trained(SGD(0.1, momentum), p, 10)
    for t in range(1, 11):
        buf = momentum * buf + gradient_of(t, 7)
        p = p - 0.1 * buf
    np.testing.assert_allclose(ours, p, rtol=0, atol=1e-15)


@pytest.mark.parametrize("optimizer", EVERY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cutting_the_buffer_anywhere_gives_the_same_bits(optimizer: Rule, dtype: Any) -> None:
    size = 2 * PIECE + 77
    rng = np.random.default_rng(0)
    gradients = [rng.standard_normal(size).astype(dtype) for _ in range(3)]
    start = rng.standard_normal(size).astype(dtype)

    def after_updates(where: slice) -> Array:
        params = start[where].copy()
        state = optimizer.new_state(params.size, dtype)
        for iteration, grads in enumerate(gradients, start=1):
            optimizer.update(params, grads[where], state, iteration)
        return params

    cuts = [0, 1, 1, 14, PIECE - 3, PIECE + 5, 2 * PIECE + 70, size]
    parts = [after_updates(slice(*ends)) for ends in pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(parts), after_updates(slice(None)))


@pytest.mark.parametrize("optimizer", EVERY)
def test_grads_are_only_read_and_the_dtype_stays(optimizer: Rule) -> None:
    params = np.ones(5, np.float32)
    state = optimizer.new_state(5, np.float32)
    grads = np.ones(5, np.float32)
    grads.flags.writeable = False
    optimizer.update(params, grads, state, iteration=1)
    assert (params < 1).all()
    assert {array.dtype for array in (params, *state.values())} == {np.dtype(np.float32)}


NARROW = [ml_dtypes.bfloat16, np.float16, np.float32]


def updated(optimizer: Rule, dtype: Any, gradients: list[Array], scale: float = 1.0) -> list[Array]:
    """Parameters and state after a few updates of ones."""
    params = np.ones(gradients[0].size, dtype)
    state = optimizer.new_state(params.size, dtype)
    for iteration, grads in enumerate(gradients, start=1):
        optimizer.update(params, grads, state, iteration, scale)
    return [params, *state.values()]


def assert_same_bits(actual: list[Array], expected: list[Array]) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("optimizer", EVERY)
@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_narrow_gradients_update_as_if_cast_and_scaled_before(
    optimizer: Rule, narrow: Any, dtype: Any
) -> None:
    size, scale = PIECE + 5, 0.37
    gradients = [gradient_of(iteration, size).astype(narrow) for iteration in (1, 2, 3)]
    as_they_were = [grads.copy() for grads in gradients]
    scaled_before = [grads.astype(dtype) * dtype(scale) for grads in gradients]
    assert_same_bits(updated(optimizer, dtype, gradients, scale), updated(optimizer, dtype, scaled_before))
    assert_same_bits(gradients, as_they_were)


@pytest.mark.parametrize("optimizer", EVERY)
def test_a_loss_scale_is_taken_out_without_a_trace(optimizer: Rule) -> None:
    """A power of two only moves the exponent."""
    plain = [gradient_of(iteration, 9).astype(np.float32) for iteration in (1, 2, 3)]
    enlarged = [grads * np.float32(65536) for grads in plain]
    assert_same_bits(
        updated(optimizer, np.float32, enlarged, 1 / 65536), updated(optimizer, np.float32, plain)
    )


@pytest.mark.parametrize("optimizer", EVERY)
def test_a_scale_that_is_not_a_number_shows(optimizer: Rule) -> None:
    params, *_ = updated(optimizer, np.float32, [np.ones(3, np.float32)], np.nan)
    assert np.isnan(params).all()


@pytest.mark.parametrize("grads_dtype", [np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("optimizer", EVERY)
def test_scratch_does_not_grow_with_the_shard(optimizer: Rule, grads_dtype: Any) -> None:
    params, grads = np.ones(64 * PIECE), np.ones(64 * PIECE, grads_dtype)
    state = optimizer.new_state(params.size, params.dtype)
    tracemalloc.start()
    optimizer.update(params, grads, state, iteration=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * params.itemsize * PIECE


@pytest.mark.parametrize("optimizer", EVERY)
def test_an_empty_shard_updates_to_an_empty_shard(optimizer: Rule) -> None:
    assert trained(optimizer, np.empty(0), 2).size == 0


@pytest.mark.parametrize(("optimizer", "moments"), list(zip(EVERY, [0, 1, 2, 2], strict=True)))
def test_state_holds_only_the_moments_it_needs(optimizer: Rule, moments: int) -> None:
    state = optimizer.new_state(6, np.float64)
    assert len(state) == moments
    assert all(moment.shape == (6,) and not moment.any() for moment in state.values())


@pytest.mark.parametrize("optimizer", EVERY)
def test_grads_of_another_shard_are_refused(optimizer: Rule) -> None:
    with pytest.raises(ValueError, match="elements do not walk side by side"):
        optimizer.update(np.ones(5), np.ones(1), optimizer.new_state(5, np.float64), iteration=1)


def test_iterations_count_from_one() -> None:
    with pytest.raises(ValueError, match="iteration 0"):
        Adam(0.1).update(np.ones(1), np.ones(1), Adam(0.1).new_state(1, np.float64), iteration=0)


def test_optimizers_are_made_by_name() -> None:
    assert make_optimizer("sgd", lr=0.1) == SGD(0.1)
    assert make_optimizer("sgd", lr=0.1, momentum=0.9) == SGD(0.1, 0.9)
    assert make_optimizer("adam", lr=0.1) == Adam(0.1)
    assert make_optimizer("adamw", lr=0.1, weight_decay=0.2) == AdamW(0.1, weight_decay=0.2)


def test_an_unknown_name_or_option_is_refused_with_what_there_is() -> None:
    with pytest.raises(ValueError, match="unknown optimizer 'lion': take one of sgd, adam, adamw, muon"):
        make_optimizer("lion", lr=0.1)
    with pytest.raises(ValueError, match=r"adam has no momentum, given as 0\.9: it takes lr, betas, eps"):
        make_optimizer("adam", lr=0.1, momentum=0.9)
