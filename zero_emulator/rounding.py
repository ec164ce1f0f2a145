"""What a sum over ranks loses by rounding: a ring that adds in BF16, and one that adds in FP32.

Both are policies: ``bf16`` reduces gradients in BF16, adding in FP32 and rounding once a hop; with
``--reduce-dtype float32`` it sends twice the bytes and rounds once, at the end.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from collectives.blocks import even_cut
from collectives.communicator import Communicator
from collectives.transports.base import Transport
from collectives.transports.threads import run_threads
from zero_emulator.dtypes import dtype_of
from zero_emulator.layout import Array

ELEMENTS = 32768


class RoundingError(NamedTuple):
    """Root mean square of the error of a sum of so many ranks' gradients, as a part of that of the sum."""

    num_ranks: int
    every_hop: float
    once: float


def rounding_errors(world_sizes: Sequence[int]) -> list[RoundingError]:
    """The errors of the ring reduce_scatter of normally distributed BF16 gradients, by world size."""
    return [
        RoundingError(num_ranks, _error(num_ranks, "bfloat16"), _error(num_ranks, "float32"))
        for num_ranks in world_sizes
    ]


def _error(num_ranks: int, wire: str) -> float:
    """The relative error of a sum that travels and is added in this dtype, and ends in BF16."""
    rng = np.random.default_rng(0)
    shape = num_ranks, ELEMENTS
    gradients = rng.standard_normal(shape, np.float32).astype(dtype_of("bfloat16"))
    exact = gradients.astype(np.float64).sum(axis=0)

    def reduce(transport: Transport) -> Array:
        comm = Communicator(transport)
        own = gradients[comm.rank].astype(dtype_of(wire))
        block = np.empty(even_cut(own.size, num_ranks)[comm.rank], own.dtype)
        comm.reduce_scatter(own, block).wait()
        return block.astype(dtype_of("bfloat16"))

    summed = np.concatenate(run_threads(num_ranks, reduce)).astype(np.float64)
    return float(np.sqrt(np.mean((summed - exact) ** 2) / np.mean(exact**2)))
