"""Times of calls side by side: in every round each contender once, and each result checked."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from collectives.arguments import IN_PLACE
from collectives.bench.contender import Contender
from collectives.communicator import Communicator
from collectives.transports.base import Transport


class Samples(NamedTuple):
    """Of one contender: seconds of each round, on the slowest rank; wrong elements on all ranks."""

    seconds: list[float]
    wrong: int
    sent: int | None  # by the busiest rank


def measure(
    contenders: Sequence[Contender],
    transport: Transport,
    meet: Callable[[], object],
    *,
    rounds: int,
    warmup: int,
) -> list[Samples]:
    """The samples of each contender, alike on every rank.

    Ranks meet before each call, and a call lasts until its slowest rank is done. Results are checked outside
    the timed part, those of the warm-up as well.
    """
    seconds: list[list[float]] = [[] for _ in contenders]
    wrong = [0] * len(contenders)
    order = list(range(len(contenders)))
    for turn in range(warmup + rounds):
        for number in order:
            one = contenders[number]
            one.trial.reset()
            meet()
            start = time.perf_counter()
            one.run()
            spent = time.perf_counter() - start
            wrong[number] += one.trial.count_wrong()
            if turn >= warmup:
                seconds[number].append(spent)
        order.reverse()  # who comes first finds other things in the cache
    ranks = transport.exchange(
        [(*both, one.sent) for *both, one in zip(seconds, wrong, contenders, strict=True)]
    )
    return [_together(reports) for reports in zip(*ranks, strict=True)]


def _together(reports: Sequence[tuple[list[float], int, int | None]]) -> Samples:
    seconds, wrong, sent = zip(*reports, strict=True)
    return Samples(
        [max(spent) for spent in zip(*seconds, strict=True)],
        sum(wrong),
        None if None in sent else max(sent),
    )


def meeting(comm: Communicator) -> Callable[[], object]:
    """A function that returns when all ranks have called it, within a few microseconds of each other."""
    gather = comm.prepare("all_gather", IN_PLACE, np.zeros(comm.world_size, np.uint8))

    def meet() -> None:
        gather.run()  # who waited long for it was asleep, and comes out late
        gather.run()

    return meet
