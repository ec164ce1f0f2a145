"""The data model: a collective algorithm is a schedule, and everything else interprets it.

A schedule is what one rank does, step by step, in named blocks. It touches no array and no network, so the
same generator can be run, proved, priced, counted and printed. A ring all-gather is the textbook sentence:
"in step s rank r sends block r - s to its right neighbour and receives block r - s - 1 from its left".

The rules of a step, which every interpreter keeps:

* its operations are posted together, and the step is over when all of them are;
* a send reads its blocks as they were before the step;
* receives take effect after it, in the order listed;
* messages between two ranks arrive in the order sent, and both ends name the same blocks.
"""

from collections.abc import Callable, Hashable, Iterator
from itertools import chain, zip_longest
from typing import Literal, NamedTuple

Block = Hashable
"""The name of a block: an index, or ``(source, destination)`` for an all-to-all. Where it lies in memory is
not the schedule's business."""

Side = Literal["before", "after"]
"""On which side of the operator the incoming operand stands: ``incoming + own`` is "before"."""


Place = tuple[int, int]
"""A rank, and a step of it; the one after its last step is its end."""


class ScheduleError(Exception):
    """A schedule breaks its promise; the message names the rank, the step and the block.

    ``places``: where in the schedule that is, for whoever prints it.
    """

    def __init__(self, message: str, *places: Place) -> None:
        super().__init__(message)
        self.places = places


class Send(NamedTuple):
    """Give ``peer`` a copy of these blocks."""

    peer: int
    blocks: tuple[Block, ...]


class Recv(NamedTuple):
    """Take these blocks from ``peer``: in place of what is here, or combined with it from the given side."""

    peer: int
    blocks: tuple[Block, ...]
    combine: Side | None = None


Step = tuple[Send | Recv, ...]
Schedule = Iterator[Step]
MakeSchedule = Callable[[int, int], Schedule]
"""``(rank, world_size)`` to the steps that this rank takes."""


def together(*schedules: Schedule) -> Schedule:
    """The schedules side by side: step s of the result is step s of each of them, posted together.

    They must not touch the same blocks. A bidirectional ring is two rings together, on half blocks.
    """
    for steps in zip_longest(*schedules, fillvalue=()):
        yield tuple(chain.from_iterable(steps))


def rename(
    schedule: Schedule,
    *,
    block: Callable[[Block], Block] | None = None,
    peer: Callable[[int], int] | None = None,
) -> Schedule:
    """The same schedule with other names: run a ring backwards, on some of the ranks, or on other blocks."""
    for step in schedule:
        yield tuple(
            _moved(
                operation,
                operation.peer if peer is None else peer(operation.peer),
                operation.blocks if block is None else tuple(map(block, operation.blocks)),
            )
            for operation in step
        )


def spread(schedule: Schedule, over: Callable[[Block], tuple[Block, ...]]) -> Schedule:
    """The same schedule with each block standing for several, which travel in one message."""
    for step in schedule:
        yield tuple(
            _moved(operation, operation.peer, tuple(chain.from_iterable(map(over, operation.blocks))))
            for operation in step
        )


def backwards(schedule: Schedule, combine: Side | None = None) -> Schedule:
    """The schedule from its end to its start, where each who gave takes, and each who took gives.

    What fans out then gathers: an all-gather backwards is a reduce-scatter, if what is taken is combined.
    What gathers then fans out: a reduce to one rank backwards is a broadcast from it.
    """
    for step in reversed(tuple(schedule)):
        yield tuple(
            Recv(operation.peer, operation.blocks, combine)
            if isinstance(operation, Send)
            else Send(operation.peer, operation.blocks)
            for operation in step
        )


def names(blocks: tuple[Block, ...], comma: str = ", ") -> str:
    """The blocks one by one, or ``0-7`` where there are three or more numbers in a row."""
    first = blocks[0] if blocks else None
    if len(blocks) > 2 and isinstance(first, int) and blocks == tuple(range(first, first + len(blocks))):
        return f"{first}-{blocks[-1]}"
    return comma.join(map(str, blocks))


def _moved(operation: Send | Recv, peer: int, blocks: tuple[Block, ...]) -> Send | Recv:
    """What ``_replace`` gives, in a third of the time: a proof walks through millions of them."""
    return Send(peer, blocks) if isinstance(operation, Send) else Recv(peer, blocks, operation.combine)
