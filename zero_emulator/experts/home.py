"""What a rank does with its own rows: sends them to their experts, and weighs what comes back by the gates.

``x`` and the gradient by it are [x | gates], (rows, width + num_experts); what leaves and what comes back is
in the order of ``travel.sent``, (pairs, width). ``empty`` makes what is returned.
"""

import numpy as np

from zero_emulator.experts.travel import Travel
from zero_emulator.layout import Array, Empty


def leaving_rows(x: Array, width: int, travel: Travel, empty: Empty) -> Array:
    """The row of every pair."""
    leaving = empty((travel.num_sent, width), x.dtype)
    for _, samples, place in travel.sent:
        leaving[place] = x[samples, :width]
    return leaving


def combine(x: Array, outputs: Array, travel: Travel, empty: Empty) -> Array:
    """x + Σ gate · output, (rows, width); experts are added in their order, wherever they are."""
    width = outputs.shape[1]
    y = empty((len(x), width), x.dtype)
    y[...] = x[:, :width]
    for expert, samples, place in travel.sent:  # a sample is there once for each expert
        y[samples] += x[samples, width + expert, None] * outputs[place]
    return y


def leaving_gradients(x: Array, grad_y: Array, travel: Travel, empty: Empty) -> Array:
    """The gradient by each output."""
    width = grad_y.shape[1]
    leaving = empty((travel.num_sent, width), x.dtype)
    for expert, samples, place in travel.sent:
        leaving[place] = x[samples, width + expert, None] * grad_y[samples]
    return leaving


def combine_gradients(
    x: Array, outputs: Array, grad_y: Array, returned: Array, travel: Travel, empty: Empty
) -> Array:
    """The gradient by [x | gates]; ``returned`` is that by each row that left."""
    width = grad_y.shape[1]
    grad_x = empty(x.shape, x.dtype)
    grad_x[:, :width] = grad_y
    grad_x[:, width:] = 0
    for expert, samples, place in travel.sent:
        grad_x[samples, :width] += returned[place]
        grad_x[samples, width + expert] = np.sum(outputs[place] * grad_y[samples], axis=1)
    return grad_x
