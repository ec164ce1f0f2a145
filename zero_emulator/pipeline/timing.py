"""When each action starts, if computing takes time and messages none."""

from collections.abc import Sequence
from dataclasses import dataclass

from zero_emulator.pipeline.actions import Backward, Forward, Order, Receive, Send
from zero_emulator.pipeline.walking import walk


@dataclass(frozen=True)
class Timetable:
    """When each action starts, by stage and place in its order; in units, the first at 0."""

    starts: tuple[tuple[int, ...], ...]
    busy: tuple[int, ...]
    """Units that each stage computes."""
    units: int
    """Until the last stage has ended."""

    @property
    def bubbles(self) -> tuple[float, ...]:
        """The share of all units that each stage is idle."""
        return tuple(1 - busy / self.units for busy in self.busy)


def timetable(orders: Sequence[Order], forward: int = 1, backward: int = 2) -> Timetable:
    """Every action as early as its stage and its message are ready; a Receive starts once it has it.

    ``forward`` and ``backward`` are the units that one of a chunk takes: modelled, not measured. The orders
    are those that ``check_orders`` passes. ValueError for units below 1.
    """
    if min(forward, backward) < 1:
        raise ValueError(f"forward {forward} and backward {backward} units: give 1 or more")
    starts: list[list[int]] = [[] for _ in orders]
    busy, clock = [0] * len(orders), [0] * len(orders)
    sent: dict[tuple[str, int, int], int] = {}
    for stage, place in walk(orders):
        action = orders[stage][place]
        if isinstance(action, Receive):
            clock[stage] = max(clock[stage], sent[action[:3]])
        elif isinstance(action, Send):
            sent[action[:3]] = clock[stage]
        starts[stage].append(clock[stage])
        length = forward * isinstance(action, Forward) + backward * isinstance(action, Backward)
        clock[stage] += length
        busy[stage] += length
    return Timetable(tuple(map(tuple, starts)), tuple(busy), max(clock))
