import math
import tracemalloc

import numpy as np
import pytest

from zero_emulator.clipping import clip_scale, square_sum
from zero_emulator.pieces import PIECE


@pytest.mark.parametrize("size", [0, 1, 5, PIECE, PIECE + 1, 3 * PIECE + 7])
def test_square_sum_counts_every_element_once(size: int) -> None:
    assert square_sum(np.full(size, 2, np.float32)) == 4 * size


def test_square_sum_is_taken_in_float64() -> None:
    assert square_sum(np.array([1e30, 1e-3], np.float32)) == pytest.approx(1e60)
    many = np.full(10**6, 0.1, np.float32)
    assert square_sum(many) == pytest.approx(10**6 * float(many[0]) ** 2, rel=1e-12)


def test_scratch_of_square_sum_does_not_grow_with_the_array() -> None:
    array = np.ones(64 * PIECE, np.float32)
    tracemalloc.start()
    square_sum(array)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 8 * PIECE


def test_a_norm_above_the_limit_is_scaled_down_to_it() -> None:
    gradients = [np.array([3.0, 0.0]), np.array([4.0])]
    scale = clip_scale(sum(map(square_sum, gradients)), max_norm=2.0)
    assert scale == 2.0 / (5.0 + 1e-6)  # torch's 1e-6 included
    assert math.sqrt(sum(square_sum(scale * gradient) for gradient in gradients)) <= 2.0


def test_a_norm_below_the_limit_is_left_alone() -> None:
    assert clip_scale(25.0, max_norm=6.0) == 1.0
    assert clip_scale(0.0, max_norm=6.0) == 1.0


def test_a_broken_norm_is_not_hidden() -> None:
    assert math.isnan(clip_scale(math.nan, max_norm=1.0))
    assert clip_scale(math.inf, max_norm=1.0) == 0.0
