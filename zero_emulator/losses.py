"""Losses that add up: over ranks and micro-batches, the parts of a batch sum to the whole.

Every part is divided by the number of samples in the *global* batch. A mean of each part's own mean would
weigh the samples of a small part more than those of a large one.
"""

from collections.abc import Callable

import numpy as np

from zero_emulator.layout import Array, Empty

LossFunction = Callable[[Array, Array, int], tuple[float, Array]]

AddedLoss = Callable[[Array, Array, int], tuple[float, Array]]
"""Of rows and the outputs for them, beside the loss of outputs and targets."""


def softmax_cross_entropy(outputs: Array, targets: Array, global_count: int) -> tuple[float, Array]:
    """These rows' share of the mean of -log softmax(outputs)[target], and its gradient by the outputs.

    ``outputs`` (rows, classes) and ``targets`` (rows,) of class indices are only read; 0 rows are fine. The
    loss is summed in float64, the gradient (rows, classes) keeps the dtype of the outputs. ValueError for
    shapes that do not match, a negative class, or more rows than ``global_count``.
    """
    _check_shapes(outputs, targets, outputs.shape[:1], global_count)
    if np.any(targets < 0):
        raise ValueError(f"class {targets.min()} is negative: number classes from 0, leave out other rows")
    rows = np.arange(len(outputs))
    grad = outputs - outputs.max(axis=1, keepdims=True)  # the largest exponent is 0: exp cannot overflow
    exponents = grad[rows, targets]
    np.exp(grad, out=grad)
    sums = grad.sum(axis=1, keepdims=True)
    loss = np.sum(np.log(sums[:, 0]) - exponents, dtype=np.float64)

    grad /= sums  # the softmax, in place: one array of this size is enough
    grad[rows, targets] -= 1
    grad /= global_count
    return float(loss) / global_count, grad


def mean_squared_error(outputs: Array, targets: Array, global_count: int) -> tuple[float, Array]:
    """These rows' share of the mean of (outputs - targets)², and its gradient by the outputs.

    The mean is over the samples of the global batch and over the outputs of each, as torch takes it. Both
    arrays are (rows, outputs) and only read; 0 rows are fine. The loss is summed in float64, the gradient
    keeps the dtype of the outputs. ValueError for unequal shapes or more rows than ``global_count``.
    """
    _check_shapes(outputs, targets, outputs.shape, global_count)
    terms = global_count * outputs.shape[1]
    difference = np.subtract(outputs, targets, dtype=outputs.dtype)
    loss = np.sum(np.square(difference), dtype=np.float64)
    difference *= 2 / terms
    return float(loss) / terms, difference


LOSSES: dict[str, LossFunction] = {"cross_entropy": softmax_cross_entropy, "mse": mean_squared_error}


def kl_to_reference(
    outputs: Array, reference: Array, global_count: int, coefficient: float, empty: Empty = np.empty
) -> tuple[float, Array]:
    """These rows' share of ``coefficient`` · mean KL(softmax(outputs) || reference), and its gradient.

    A row's divergence is the sum over classes of p (log p - log q). ``reference`` (rows, classes) is log q;
    it and the outputs are only read, 0 rows are fine. The share is summed in float64, the gradient by the
    outputs keeps their dtype. ``empty`` makes it, and for a moment one more of its size. ValueError for
    unequal shapes or more rows than ``global_count``.
    """
    _check_shapes(outputs, reference, outputs.shape, global_count)
    grad, p = empty(outputs.shape, outputs.dtype), empty(outputs.shape, outputs.dtype)
    grad[...] = outputs
    log_softmax(grad)
    np.exp(grad, out=p)
    grad -= reference
    divergence = np.einsum("ij,ij->i", p, grad, dtype=np.float64, casting="unsafe")

    np.subtract(grad, divergence[:, np.newaxis], out=grad, casting="unsafe")
    grad *= p
    grad *= coefficient / global_count
    return coefficient * float(divergence.sum()) / global_count, grad


def log_softmax(outputs: Array) -> Array:
    """The logarithm of the softmax of each row (rows, classes), in place."""
    outputs -= outputs.max(axis=1, keepdims=True)  # or a sum of large exponents would keep few digits
    sums = np.logaddexp.reduce(outputs, axis=1, keepdims=True, dtype=np.float64)
    return np.subtract(outputs, sums, out=outputs, casting="unsafe")


def _check_shapes(outputs: Array, targets: Array, wanted: tuple[int, ...], global_count: int) -> None:
    """Targets of another shape would broadcast in silence."""
    if targets.shape != wanted:
        raise ValueError(f"outputs {outputs.shape} need targets of shape {wanted}, not {targets.shape}")
    if not max(1, len(outputs)) <= global_count:
        raise ValueError(
            f"{len(outputs)} rows of a global batch of {global_count}: pass the samples of all ranks together"
        )
