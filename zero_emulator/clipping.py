"""Clipping by the global norm, cut so that each rank can sum the squares of its own shard."""

from math import sqrt

import numpy as np

from zero_emulator.layout import Array
from zero_emulator.pieces import pieces


def square_sum(array: Array) -> float:
    """The sum of squares of a flat array, in float64 whatever its dtype.

    Fixed pieces, added from front to back and without BLAS, whose order depends on its threads: the same
    array gives the same bits. Another cut of it may not, so agree on the cut before you compare norms.
    """
    return sum((float(np.sum(np.square(piece, dtype=np.float64))) for (piece,) in pieces(array)), 0.0)


def clip_scale(global_square_sum: float, max_norm: float) -> float:
    """What to multiply every gradient by so that their common norm is at most ``max_norm``; never above 1.

    A norm that is not a number gives a scale that is not one either: a broken gradient must show.
    Source: torch.nn.utils.clip_grad_norm_, its 1e-6 included.
    """
    # min keeps its first operand where a comparison with NaN fails.
    return min(max_norm / (sqrt(global_square_sum) + 1e-6), 1.0)
