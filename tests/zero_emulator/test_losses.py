import numpy as np
import pytest

from zero_emulator.layout import Array
from zero_emulator.losses import LOSSES, mean_squared_error, softmax_cross_entropy

RNG = np.random.default_rng(0)
OUTPUTS = RNG.standard_normal((7, 3))
TARGETS: dict[str, Array] = {"cross_entropy": RNG.integers(0, 3, 7), "mse": RNG.standard_normal((7, 3))}


def test_cross_entropy_is_the_mean_of_minus_log_softmax() -> None:
    targets = TARGETS["cross_entropy"]
    softmax = np.array([np.exp(row) / sum(np.exp(row)) for row in OUTPUTS])
    loss, grad = softmax_cross_entropy(OUTPUTS, targets, 7)
    assert loss == pytest.approx(
        np.mean([-np.log(softmax[row, target]) for row, target in enumerate(targets)])
    )
    np.testing.assert_allclose(grad, (softmax - np.eye(3)[targets]) / 7, atol=1e-15)


def test_mse_is_the_mean_over_samples_and_outputs() -> None:
    loss, grad = mean_squared_error(OUTPUTS, TARGETS["mse"], 7)
    assert loss == pytest.approx(np.mean((OUTPUTS - TARGETS["mse"]) ** 2))
    np.testing.assert_allclose(grad, 2 * (OUTPUTS - TARGETS["mse"]) / 21)


@pytest.mark.parametrize("loss", LOSSES)
def test_uneven_parts_of_a_batch_sum_to_the_whole(loss: str) -> None:
    whole, whole_grad = LOSSES[loss](OUTPUTS, TARGETS[loss], 7)
    cuts = [slice(0, 4), slice(4, 4), slice(4, 5), slice(5, 7)]
    parts = [LOSSES[loss](OUTPUTS[cut], TARGETS[loss][cut], 7) for cut in cuts]
    assert sum(part for part, _ in parts) == pytest.approx(whole, rel=1e-14)
    np.testing.assert_array_equal(np.concatenate([grad for _, grad in parts]), whole_grad)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_rows_add_nothing(loss: str) -> None:
    value, grad = LOSSES[loss](OUTPUTS[:0], TARGETS[loss][:0], 7)
    assert value == 0.0
    assert grad.shape == (0, 3)


@pytest.mark.parametrize("loss", LOSSES)
def test_float32_outputs_keep_their_dtype_and_are_not_written_to(loss: str) -> None:
    outputs = OUTPUTS.astype(np.float32)
    outputs.flags.writeable = False
    value, grad = LOSSES[loss](outputs, TARGETS[loss], 7)
    assert type(value) is float
    assert grad.dtype == np.float32


def test_cross_entropy_survives_huge_outputs() -> None:
    loss, grad = softmax_cross_entropy(np.array([[1e4, 0.0], [-1e4, 0.0]]), np.array([1, 1]), 2)
    assert loss == 5e3
    np.testing.assert_array_equal(grad, [[0.5, -0.5], [0, 0]])


@pytest.mark.parametrize("loss", LOSSES)
def test_targets_that_would_broadcast_are_refused(loss: str) -> None:
    with pytest.raises(ValueError, match=r"outputs \(7, 3\) need targets of shape .*, not \(7, 1\)"):
        LOSSES[loss](OUTPUTS, np.zeros((7, 1), int), 7)


@pytest.mark.parametrize("loss", LOSSES)
def test_more_rows_than_the_global_batch_are_refused(loss: str) -> None:
    with pytest.raises(ValueError, match="7 rows of a global batch of 6"):
        LOSSES[loss](OUTPUTS, TARGETS[loss], 6)


def test_a_negative_class_is_refused() -> None:
    with pytest.raises(ValueError, match="class -1 is negative"):
        softmax_cross_entropy(OUTPUTS, np.full(7, -1), 7)
