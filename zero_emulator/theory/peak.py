"""The peak: the most that a rank holds at once, by kind, and when."""

from collections import Counter
from collections.abc import Mapping

from zero_emulator.meter import Moment, Peak
from zero_emulator.theory.growths import Passing


def highest_peak(kept: Mapping[str, int], passing: Passing, first_update: int | None = 1) -> Peak:
    """The first of the largest moments, in bytes by kind: what is ``kept`` between iterations, and passing.

    Of a run that made its first update in this iteration, or none at all: one may be voted down.
    """
    highest = Peak(dict(+Counter(kept)), Moment())
    for iteration in sorted({1, first_update or 1}):
        for phase, layer, beside in passing.growths(updates=iteration == first_update):
            now = Peak(dict(Counter(kept) + beside), Moment(iteration, phase, layer))
            if now.total > highest.total:
                highest = now
    return highest
