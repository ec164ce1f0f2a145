"""The arrays of one measured call on one rank: what it is given, and what it must leave."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from collectives.arguments import IN_PLACE, Array, InPlace
from collectives.transports.base import address_of

Places = tuple[tuple[Array, Array], ...]
"""Memory, and the numbers that belong there."""

EVERYWHERE = slice(None)


@dataclass(frozen=True)
class Trial:
    """One call's arrays. ``given`` is what it finds in memory that it writes, ``due`` what it must leave."""

    input: Array | InPlace | None
    output: Array | None
    given: Places
    due: Places

    def moved(self, empty: Callable[[int], Array]) -> "Trial":
        """The same in memory from ``empty``, so many bytes flat: where the wire moves it best."""

        def copied(array: Array) -> Array:
            copy = empty(array.nbytes).view(array.dtype)
            np.copyto(copy, array)
            return copy

        def placed(places: Places) -> Places:
            if self.output is None or output is None:
                return ()
            first = address_of(self.output)
            starts = [(address_of(place) - first) // place.itemsize for place, _ in places]
            return tuple(
                (output[start : start + place.size], values)
                for start, (place, values) in zip(starts, places, strict=True)
            )

        output = None if self.output is None else copied(self.output)
        input = copied(self.input) if isinstance(self.input, np.ndarray) else self.input
        return Trial(input, output, placed(self.given), placed(self.due))

    def reset(self) -> None:
        """Make every result wrong, and put back what the call before has overwritten."""
        for place, values in self.due:
            np.subtract(values, 1, out=place, casting="unsafe")
        for place, values in self.given:
            np.copyto(place, values)

    def count_wrong(self) -> int:
        """How many elements are not what they must be."""
        return sum(int(np.count_nonzero(place != values)) for place, values in self.due)


def apart(given: Array | None, due: Array | None) -> Trial:
    """An input with these numbers and an output for those; None for what this rank has not."""
    if due is None:
        return Trial(given, None, (), ())
    output = np.empty_like(due)
    return Trial(given, output, (), ((output, due),))


def together(size: int, given_at: slice, given: Array | None, due_at: slice, due: Array) -> Trial:
    """One array for both: what is given and what is due lie in it, at their places."""
    output = np.empty(size, due.dtype)
    found = () if given is None else ((output[given_at], given),)
    return Trial(IN_PLACE, output, found, ((output[due_at], due),))
