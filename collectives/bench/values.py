"""The numbers that ranks give to a measured call, and those that it must return: exact in every order.

Each rank makes its own arrays alone, for they may be large: what it must get is worked out from one period.
`testing/expected.py` makes those of all ranks on every rank, small ones, straight from the definitions.
"""

from typing import Any

import numpy as np

from collectives.arguments import Array
from collectives.operators import Operator

PERIOD = 251
"""Values come again after so many elements: a prime, so that no block looks like its neighbour."""


class Values:
    """What each rank gives, of one dtype, and what an operator makes of it."""

    def __init__(self, world_size: int, dtype: str, operator: Operator) -> None:
        self.world_size, self.dtype, self.operator = world_size, find_dtype(dtype), operator
        ramp = np.arange(PERIOD) * 97 % PERIOD
        if operator.name == "prod":
            ramp = 1 + (ramp % 16 == 0)  # few twos: their product stays finite
        elif self.dtype.kind not in "iu":
            ramp = ramp % _exact_terms(self.dtype, world_size)
        self._cycle = ramp.astype(self.dtype)

    def given(self, rank: int, count: int, start: int = 0) -> Array:
        """Elements from ``start`` of a rank's array."""
        return _repeat(self._period(rank), start, count)

    def reduced(self, start: int, count: int, ranks: int | None = None) -> Array:
        """Elements from ``start`` of all ranks' arrays, reduced; or of the first ``ranks`` ranks'."""
        total = self._period(0)
        for rank in range(1, self.world_size if ranks is None else ranks):
            self.operator.combine(total, self._period(rank), out=total)
        return _repeat(total, start, count)

    def _period(self, rank: int) -> Array:
        return np.roll(self._cycle, -31 * rank)


def find_dtype(name: str) -> "np.dtype[Any]":
    """NumPy's dtype of that name, or bfloat16."""
    if name == "bfloat16":
        import ml_dtypes  # noqa: F401 - it teaches NumPy the name; nothing else here needs it
    return np.dtype(name)


def _exact_terms(dtype: "np.dtype[Any]", world_size: int) -> int:
    """How many whole numbers from 0 there are whose sums, of one a rank, are exact."""
    bits = 8 if dtype.name == "bfloat16" else np.finfo(dtype).nmant + 1
    return int(min(PERIOD, max(2, 2**bits // world_size)))


def _repeat(period: Array, start: int, count: int) -> Array:
    return np.tile(np.roll(period, -start), -(-count // PERIOD))[:count]
