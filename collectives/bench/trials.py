"""The arrays of one measured call on one rank: what it is given, and what it must leave."""

from dataclasses import dataclass

import numpy as np

from collectives.arguments import Array, InPlace

Places = tuple[tuple[Array, Array], ...]
"""Memory, and the numbers that belong there."""


@dataclass(frozen=True)
class Trial:
    """One call's arrays. ``given`` is what it finds in memory that it writes, ``due`` what it must leave."""

    input: Array | InPlace
    output: Array
    given: Places
    due: Places

    def reset(self) -> None:
        """Make every result wrong, and put back what the call before has overwritten."""
        for place, values in self.due:
            np.subtract(values, 1, out=place, casting="unsafe")
        for place, values in self.given:
            np.copyto(place, values)

    def count_wrong(self) -> int:
        """How many elements are not what they must be."""
        return sum(int(np.count_nonzero(place != values)) for place, values in self.due)
