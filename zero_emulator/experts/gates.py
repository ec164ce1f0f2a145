"""From probabilities to gates, the weights of the experts in a sum; a way for each number of choices."""

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from zero_emulator.layout import Array


class Gating(NamedTuple):
    """The gates of what was chosen, and the way back from the gradient by them to that by probabilities.

    Arguments are (probabilities, chosen, out) and (probabilities, chosen, grad_gates, out), all of shape
    (rows, num_experts). ``out`` is zero where an expert was not chosen; capacities come later.
    """

    forward: Callable[[Array, Array, Array], None]
    backward: Callable[[Array, Array, Array, Array], None]


def choose(probabilities: Array, top_k: int) -> Array:
    """Which ``top_k`` experts are the most probable, for every row: bools; of equal ones the lower index."""
    order = np.argsort(-probabilities, axis=1, kind="stable")
    chosen = np.zeros(probabilities.shape, bool)
    np.put_along_axis(chosen, order[:, :top_k], True, axis=1)
    return chosen


def only(values: Array, where: Array, out: Array) -> None:
    """The values where they are asked for, and zero, whatever stands there, where they are not."""
    np.copyto(out, 0)
    np.copyto(out, values, where=where)


def keep(gates: Array, kept: Array) -> None:
    """Zero the gates of what was not kept, and no other: so whoever sees the gates knows what was kept.

    A probability that underflows to zero was chosen all the same, and is lifted to the smallest number.
    """
    np.maximum(gates, _smallest(gates.dtype), out=gates)
    np.copyto(gates, 0, where=~kept)


def _smallest(dtype: np.dtype[Any]) -> float:
    return float(ml_dtypes.finfo(dtype).smallest_subnormal)  # type: ignore[no-untyped-call] # theirs


def _as_they_are(probabilities: Array, chosen: Array, out: Array) -> None:
    """The probability itself. Source: Fedus et al., Switch Transformers, 2022."""
    only(probabilities, chosen, out)


def _back_as_they_are(probabilities: Array, chosen: Array, grad_gates: Array, out: Array) -> None:
    only(grad_gates, chosen, out)


def _renormalised(probabilities: Array, chosen: Array, out: Array) -> None:
    """Probabilities that sum to 1 over the chosen. Source: Lepikhin et al., GShard, 2021."""
    only(probabilities, chosen, out)
    out /= out.sum(axis=1, keepdims=True)


def _back_renormalised(probabilities: Array, chosen: Array, grad_gates: Array, out: Array) -> None:
    """p / s with s the sum of the chosen: (grad - Σ gate · grad) / s."""
    only(probabilities, chosen, out)
    total = out.sum(axis=1, keepdims=True)
    mean = (out * grad_gates).sum(axis=1, keepdims=True) / total
    only((grad_gates - mean) / total, chosen, out)


GATINGS = {1: Gating(_as_they_are, _back_as_they_are), 2: Gating(_renormalised, _back_renormalised)}
"""By the number of experts that a row chooses."""
