"""The divergence from a reference: its value, its gradient, and that its parts add up."""

from functools import partial

import numpy as np
import pytest

from zero_emulator.dtypes import dtype_of
from zero_emulator.layout import Array
from zero_emulator.losses import kl_to_reference, log_softmax
from zero_emulator.meter import Meter
from zero_emulator.precision import ITEMSIZE

RNG = np.random.default_rng(0)
OUTPUTS = RNG.standard_normal((7, 3)) * 2
REFERENCE = log_softmax(RNG.standard_normal((7, 3)))


def test_log_softmax_is_the_logarithm_of_the_softmax_in_place() -> None:
    outputs = OUTPUTS.copy()
    assert log_softmax(outputs) is outputs
    np.testing.assert_allclose(np.exp(outputs), [np.exp(row) / sum(np.exp(row)) for row in OUTPUTS])


def test_log_softmax_survives_huge_outputs() -> None:
    outputs = np.array([[1e4, 0.0], [-1e4, -1e4]])
    np.testing.assert_array_equal(log_softmax(outputs), [[0, -1e4], [-np.log(2)] * 2])


def test_the_share_is_the_mean_over_the_global_batch_times_the_coefficient() -> None:
    p = np.exp(log_softmax(OUTPUTS.copy()))
    wanted = sum(p[row, c] * (np.log(p[row, c]) - REFERENCE[row, c]) for row in range(7) for c in range(3))
    share, _ = kl_to_reference(OUTPUTS, REFERENCE, 20, 0.5)
    assert type(share) is float
    assert share == pytest.approx(0.5 * wanted / 20, rel=1e-14)


def test_the_gradient_is_that_of_the_share() -> None:
    _, grad = kl_to_reference(OUTPUTS, REFERENCE, 20, 0.5)
    for place in np.ndindex(OUTPUTS.shape):
        shares = []
        for step in (1e-6, -1e-6):
            outputs = OUTPUTS.copy()
            outputs[place] += step
            shares.append(kl_to_reference(outputs, REFERENCE, 20, 0.5)[0])
        assert grad[place] == pytest.approx((shares[0] - shares[1]) / 2e-6, abs=1e-9)


def test_a_model_that_is_its_own_reference_is_where_it_should_be() -> None:
    share, grad = kl_to_reference(OUTPUTS + 3, log_softmax(OUTPUTS.copy()), 7, 1.0)
    assert share == pytest.approx(0, abs=1e-15)
    np.testing.assert_allclose(grad, 0, atol=1e-15)


def test_uneven_parts_of_a_batch_sum_to_the_whole() -> None:
    whole, whole_grad = kl_to_reference(OUTPUTS, REFERENCE, 7, 0.3)
    cuts = [slice(0, 4), slice(4, 4), slice(4, 5), slice(5, 7)]
    parts = [kl_to_reference(OUTPUTS[cut], REFERENCE[cut], 7, 0.3) for cut in cuts]
    assert sum(share for share, _ in parts) == pytest.approx(whole, rel=1e-14)
    np.testing.assert_array_equal(np.concatenate([grad for _, grad in parts]), whole_grad)


def test_no_rows_add_nothing() -> None:
    share, grad = kl_to_reference(OUTPUTS[:0], REFERENCE[:0], 7, 1.0)
    assert share == 0.0
    assert grad.shape == (0, 3)


def test_a_class_without_probability_adds_nothing_and_huge_outputs_stay_finite() -> None:
    share, grad = kl_to_reference(np.array([[1e4, 0.0]]), np.log([[0.25, 0.75]]), 1, 1.0)
    assert share == pytest.approx(np.log(4))
    np.testing.assert_array_equal(grad, [[0, 0]])


@pytest.mark.parametrize("dtype", ITEMSIZE)
def test_outputs_of_any_dtype_keep_it_and_are_not_written_to(dtype: str) -> None:
    outputs, reference = (array.astype(dtype_of(dtype)) for array in (OUTPUTS, REFERENCE))
    outputs.flags.writeable = reference.flags.writeable = False
    share, grad = kl_to_reference(outputs, reference, 7, 1.0)
    exact, exact_grad = kl_to_reference(OUTPUTS, REFERENCE, 7, 1.0)
    assert grad.dtype == outputs.dtype
    assert share == pytest.approx(exact, rel=0.02)
    np.testing.assert_allclose(grad.astype(np.float64), exact_grad, atol=0.005)


def test_two_arrays_are_made_and_the_gradient_stays() -> None:
    meter = Meter()
    _, grad = kl_to_reference(OUTPUTS, REFERENCE, 7, 1.0, partial(meter.empty, "activation"))
    assert meter.alive["activation"] == grad.nbytes == OUTPUTS.nbytes
    assert meter.peak.total == 2 * OUTPUTS.nbytes


@pytest.mark.parametrize("reference", [REFERENCE[:1], REFERENCE[:, :1], REFERENCE[0]])
def test_a_reference_that_would_broadcast_is_refused(reference: Array) -> None:
    with pytest.raises(ValueError, match=r"outputs \(7, 3\) need targets of shape \(7, 3\), not "):
        kl_to_reference(OUTPUTS, reference, 7, 1.0)


def test_more_rows_than_the_global_batch_are_refused() -> None:
    with pytest.raises(ValueError, match="7 rows of a global batch of 6"):
        kl_to_reference(OUTPUTS, REFERENCE, 6, 1.0)
