"""Prefix sums: rank r ends with the operands of the ranks up to it, or below it, in rank order.

Source: W. D. Hillis and G. L. Steele, Data parallel algorithms, CACM 1986. Every rank gives its partial
result to the rank at distance d above it, which holds that of the d ranks just above: twice as many
ranks in a row after each step, on any number of ranks.
"""

from collectives.schedule import Recv, Schedule, Send, rename


def scan(rank: int, world_size: int) -> Schedule:
    """Rank r ends with the operands of ranks 0 to r.

    Cost: ⌈log p⌉ steps, the busiest rank sends p⌈log p⌉ blocks, rank 0.
    """
    return _scan(rank, world_size, tuple(range(world_size)))


def exscan(rank: int, world_size: int) -> Schedule:
    """Rank r > 0 ends with the operands of ranks 0 to r - 1.

    All give theirs to the next rank; those that have got one then scan what they got.

    Cost: [p > 1] + ⌈log(p - 1)⌉ steps, the busiest rank sends p[p > 1] + p⌈log(p - 1)⌉ blocks.
    """
    everything = tuple(range(world_size))
    up = (Send(rank + 1, everything),) if rank + 1 < world_size else ()
    down = (Recv(rank - 1, everything),) if rank > 0 else ()
    if world_size > 1:
        yield up + down
        if rank > 0:
            yield from rename(_scan(rank - 1, world_size - 1, everything), peer=lambda rank: rank + 1)
        else:
            yield from (() for _ in _scan(0, world_size - 1, everything))


def _scan(rank: int, world_size: int, everything: tuple[int, ...]) -> Schedule:
    distance = 1
    while distance < world_size:
        up = (Send(rank + distance, everything),) if rank + distance < world_size else ()
        down = (Recv(rank - distance, everything, "before"),) if rank >= distance else ()
        yield up + down
        distance *= 2
