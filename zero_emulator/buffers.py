"""Full-size buffers that live for a moment: gathered views, gradients on their way to their shards."""

import numpy as np

from zero_emulator.dtypes import dtype_of
from zero_emulator.layout import Array
from zero_emulator.meter import Meter


class Buffers:
    """New flat buffers, counted by the meter; each is freed as soon as nobody holds it.

    With ``poison`` a buffer is full of NaN before and after its use, so whoever reads it without having
    written it, or still uses it, sees nonsense at once.
    """

    def __init__(self, meter: Meter, *, poison: bool = False) -> None:
        self._meter, self._poison = meter, poison

    def take(self, kind: str, size: int, dtype: str) -> Array:
        """A buffer of ``size`` elements, whose contents are anything."""
        buffer = self._meter.empty(kind, size, dtype_of(dtype))
        self._fill(buffer)
        return buffer

    def give_back(self, buffer: Array) -> None:
        """The caller no longer uses it, and nothing of it is in flight: let go of it after this."""
        self._fill(buffer)

    def _fill(self, buffer: Array) -> None:
        if self._poison:
            buffer.fill(np.nan)
