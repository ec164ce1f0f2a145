"""What all ranks find out together before an update: one number each, as control traffic.

Every rank looks at its own blocks, in plain data parallelism too: between them they are the whole reduced
gradient of the model, all its stages and experts, and all strategies add alike. Of twins, which have the same
block, one passes its layers in.
"""

from collections.abc import Sequence

import numpy as np

from collectives.communicator import IN_PLACE, Communicator
from zero_emulator.clipping import square_sum
from zero_emulator.layer_params import LayerParams
from zero_emulator.pieces import pieces


def all_finite(comm: Communicator, layers: Sequence[LayerParams]) -> bool:
    """Whether every number of every rank's own gradients is finite. Every rank calls it."""
    own = (piece for params in layers for (piece,) in pieces(params.own_grad))
    vote = np.array([float(any(not np.isfinite(piece).all() for piece in own))])
    comm.all_reduce(IN_PLACE, vote, operator="max").wait()
    return not vote[0]


def global_square_sum(comm: Communicator, layers: Sequence[LayerParams]) -> float:
    """The sum of squares over all ranks' own gradients. Every rank calls it."""
    total = np.array([sum((square_sum(params.own_grad) for params in layers), start=0.0)])
    comm.all_reduce(IN_PLACE, total).wait()
    return float(total[0])
