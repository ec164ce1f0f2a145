"""Recursive doubling: partners twice as far away in each step, and twice as much is known.

Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
MPICH, IJHPCA 2005. The partner at distance d is the rank whose number differs in that one bit.
"""

from collectives.algorithms.folding import folded
from collectives.schedule import Recv, Schedule, Send


def all_gather(rank: int, world_size: int) -> Schedule:
    """Every rank ends with every block. For a power of two of ranks.

    Before the step of distance d a rank holds the blocks of the d ranks around it that start at a multiple
    of d; so does its partner, and they swap.

    Cost: log p steps, every rank sends p - 1 blocks.
    """
    distance = 1
    while distance < world_size:
        partner = rank ^ distance
        yield Send(partner, _around(rank, distance)), Recv(partner, _around(partner, distance))
        distance *= 2


def _around(rank: int, num_blocks: int) -> tuple[int, ...]:
    first = rank - rank % num_blocks
    return tuple(range(first, first + num_blocks))


def all_reduce(rank: int, world_size: int) -> Schedule:
    """Every rank ends with every block reduced; on any number of ranks, and the order of operands is kept.

    All blocks go both ways in every step: the fewest steps there are, and log p times the bytes of a ring.

    Cost: ⌊log p⌋ + 2[r > 0] steps, the busiest rank sends p⌊log p⌋ + p[r > 0] blocks.
    """
    return folded(_swap_everything, rank, world_size, lambda rank: tuple(range(world_size)))


def _swap_everything(rank: int, world_size: int) -> Schedule:
    everything = tuple(range(world_size))
    distance = 1
    while distance < world_size:
        partner = rank ^ distance
        yield Send(partner, everything), Recv(partner, everything, "before" if partner < rank else "after")
        distance *= 2
