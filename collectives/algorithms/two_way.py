"""Two rings at once: one half of every block goes round to the right, the other to the left.

A rank sends as much as in one ring, and uses both directions of its links: where a link carries both at once
that takes half the time.
"""

from collectives.algorithms import ring
from collectives.schedule import Block, MakeSchedule, Schedule, rename, together


def all_gather(rank: int, world_size: int) -> Schedule:
    """Every rank ends with both halves of every block.

    Cost: p - 1 steps, every rank sends p - 1 blocks.
    """
    return _both_ways(ring.all_gather, rank, world_size)


def reduce_scatter(rank: int, world_size: int) -> Schedule:
    """Both halves of block r end reduced on rank r. For operators that commute.

    Cost: p - 1 steps, every rank sends p - 1 blocks.
    """
    return _both_ways(ring.reduce_scatter, rank, world_size)


def all_reduce(rank: int, world_size: int) -> Schedule:
    """Every rank ends with both halves of every block reduced. For operators that commute.

    Cost: 2(p - 1) steps, every rank sends 2(p - 1) blocks.
    """
    return _both_ways(ring.all_reduce, rank, world_size)


def _both_ways(around: MakeSchedule, rank: int, world_size: int) -> Schedule:
    """The ring on the halves ``(b, 0)``, and its mirror image on the halves ``(b, 1)``."""

    def mirror(rank: int) -> int:
        return -rank % world_size

    def first_half(block: Block) -> Block:
        return block, 0

    def second_half(block: Block) -> Block:
        assert isinstance(block, int)
        return mirror(block), 1

    rightwards = rename(around(rank, world_size), block=first_half)
    leftwards = rename(around(mirror(rank), world_size), block=second_half, peer=mirror)
    return together(rightwards, leftwards)
