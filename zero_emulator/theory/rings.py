"""Bytes of a ring collective: what one rank sends and receives, for any cut into blocks.

s_r is block r and S the sum of all. Source: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms
for clusters of workstations, JPDC 2009.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

Sizes = tuple[int, ...]
"""Sizes of a layer's blocks in elements, one a rank."""


class Flow(NamedTuple):
    """What one rank sends and receives: in elements of a block, or in bytes."""

    sent: int
    received: int

    def __add__(self, other: object) -> "Flow":  # of flows, not of tuples
        assert isinstance(other, Flow)
        return Flow(self.sent + other.sent, self.received + other.received)

    def times(self, number: int) -> "Flow":
        return Flow(number * self.sent, number * self.received)


NOTHING = Flow(0, 0)


def ring_reduce_scatter(sizes: Sizes, rank: int) -> Flow:
    """Sends S - s_r: all blocks but its own. Receives S - s_(r-1)."""
    return Flow(sum(sizes) - sizes[rank], sum(sizes) - sizes[rank - 1])


def ring_all_gather(sizes: Sizes, rank: int) -> Flow:
    """Sends S - s_(r+1): all blocks but the one its right neighbour owns. Receives S - s_r."""
    return Flow(sum(sizes) - sizes[(rank + 1) % len(sizes)], sum(sizes) - sizes[rank])


def ring_all_reduce(sizes: Sizes, rank: int) -> Flow:
    """Sends and receives what a reduce-scatter and an all-gather do."""
    return ring_reduce_scatter(sizes, rank) + ring_all_gather(sizes, rank)


def ring_scratch(collective: str, sizes: Sizes, rank: int, *, in_place: bool) -> int:
    """Elements that a ring works in beside the caller's buffers; an all-gather needs none.

    In place a block comes in beside the one that it is added to: room for the largest that does, any but the
    left neighbour's. Out of place a reduce-scatter leaves its input as it is: room for a partial sum that
    goes out and one that comes in. Those of a step are blocks r - s - 2, all but the last of which travel on.
    """
    num_ranks = len(sizes)
    if collective == "all_gather" or num_ranks == 1:
        return 0
    received = [sizes[(rank - step - 2) % num_ranks] for step in range(num_ranks - 1)]
    if in_place:
        return max(received)
    assert collective == "reduce_scatter", f"nobody calls {collective} out of place"
    passed_on = received[:-1]
    return max(passed_on[::2], default=0) + max(passed_on[1::2], default=0)


class Scratch(Protocol):
    """Elements that a collective works in beside the caller's buffers: for a ring ``ring_scratch``."""

    def __call__(self, collective: str, sizes: Sizes, rank: int, *, in_place: bool) -> int: ...


PASSES = {
    "all_gather": ("all_gather",),
    "reduce_scatter": ("reduce_scatter",),
    "all_reduce": ("reduce_scatter", "all_gather"),
}
"""The passes of a ring that a collective consists of: in each a rank sends all blocks but one."""

RING: dict[str, Callable[[Sizes, int], Flow]] = {
    "all_gather": ring_all_gather,
    "reduce_scatter": ring_reduce_scatter,
    "all_reduce": ring_all_reduce,
}


def ring_flow(collective: str, sizes: Sizes, rank: int) -> Flow:
    """What a call of this collective sends and receives."""
    return RING[collective](sizes, rank)
