"""One expert's arithmetic: max(rows · w1 + b1, 0) · w2 + b2, forward and backward."""

import numpy as np

from zero_emulator.layout import Array

Tensors = tuple[Array, Array, Array, Array]
"""w1 (width, hidden), b1 (hidden,), w2 (hidden, width), b2 (width,), or the gradients by them."""


def feed_forward(tensors: Tensors, rows: Array, hidden: Array) -> Array:
    """The results (rows, width); what ``feed_backward`` needs is written to ``hidden`` (rows, hidden)."""
    w1, b1, w2, b2 = tensors
    np.matmul(rows, w1, out=hidden)
    hidden += b1
    np.maximum(hidden, 0, out=hidden)
    return np.asarray(hidden @ w2 + b2)


def feed_backward(tensors: Tensors, rows: Array, hidden: Array, grad: Array, grad_tensors: Tensors) -> Array:
    """The gradient by the rows, from that by the results; overwrites ``grad_tensors``."""
    w1, _, w2, _ = tensors
    grad_w1, grad_b1, grad_w2, grad_b2 = grad_tensors
    np.matmul(hidden.T, grad, out=grad_w2)
    np.sum(grad, axis=0, out=grad_b2)
    grad_hidden = grad @ w2.T
    grad_hidden *= np.sign(hidden)  # 1 where it passed, for hidden is never negative
    np.matmul(rows.T, grad_hidden, out=grad_w1)
    np.sum(grad_hidden, axis=0, out=grad_b1)
    return np.asarray(grad_hidden @ w1.T)
