"""How far apart two sets of arrays are."""

from collections.abc import Sequence

import numpy as np

from zero_emulator.layout import Array


def distance(left: Sequence[Array], right: Sequence[Array]) -> float:
    """The Euclidean distance of two sets of arrays, taken as one vector each; NaN stays NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = [
            np.sum(np.square(np.subtract(a, b, dtype=np.float64))) for a, b in zip(left, right, strict=True)
        ]
    return float(np.sqrt(np.sum(squares)))


def largest_difference(left: Sequence[Array], right: Sequence[Array] | None = None) -> float:
    """The largest absolute difference between two sets of arrays, or from zero; NaN if either has one."""
    others = [np.zeros_like(array) for array in left] if right is None else right
    pairs = zip(left, others, strict=True)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.max([np.max(np.abs(a - b), initial=0.0) for a, b in pairs]))  # NaN stays NaN


def relative_difference(found: Sequence[Array], expected: Sequence[Array]) -> float:
    """The largest difference beside the largest element expected; beside nothing but zeros, as it is."""
    return largest_difference(found, expected) / (largest_difference(expected) or 1.0)
