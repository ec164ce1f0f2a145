"""A table of choices from measurements: at each size the quickest of our algorithms that was right."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from collectives.bench.figures import Figures
from collectives.bench.settings import MPI
from collectives.bench.subjects import SUBJECTS
from collectives.choice import Choice


def best_choices(figures: Sequence[Figures], world_size: int) -> list[Choice]:
    """A line for each range of sizes in which one algorithm wins; the last has no upper bound.

    Between two sizes with different winners that of the smaller is taken, up to the larger.
    """
    first = {
        name: next(iter(subject.placements)) for name, subject in SUBJECTS.items()
    }  # a broadcast has but one
    ours = [
        one
        for one in figures
        if one.algorithm != MPI and one.placement == first[one.collective] and not one.wrong
    ]
    choices = []
    for collective, lines in groupby(ours, attrgetter("collective")):
        winners = [
            min(at_size, key=attrgetter("seconds")) for _, at_size in groupby(lines, attrgetter("num_bytes"))
        ]
        bounds = [following.num_bytes - 1 for following in winners[1:]] + [None]
        for name, run in groupby(zip(winners, bounds, strict=True), lambda pair: pair[0].ran):
            *_, (_, bound) = run
            choices.append(Choice(collective, world_size, world_size, bound, name))
    return choices
