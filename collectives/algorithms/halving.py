"""Recursive halving: half of what is left goes to the partner, and what comes back is added to the rest.

Sources: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
MPICH, IJHPCA 2005; for operands in order, J. L. Träff, An improved algorithm for (non-commutative)
reduce-scatter with an application, EuroPVM/MPI 2005.
"""

from collectives.algorithms import doubling
from collectives.algorithms.folding import folded
from collectives.schedule import Recv, Schedule, Send, backwards


def reduce_scatter(rank: int, world_size: int) -> Schedule:
    """Block r ends reduced on rank r: recursive doubling backwards. For operators that commute.

    The partners furthest away come first, so that blocks which travel together lie side by side.

    Cost: ⌊log p⌋ + 2[r > 0] steps, the busiest rank sends p - 1 + [r > 0] blocks.
    """
    return folded(_far_first, rank, world_size, lambda rank: (rank,))


def ordered_reduce_scatter(rank: int, world_size: int) -> Schedule:
    """Block r ends reduced on rank r, the operands in rank order.

    Neighbours come first, so that a partial result is always of ranks in a row; the price is that blocks
    which travel together lie apart.

    Cost: ⌊log p⌋ + 2[r > 0] steps, the busiest rank sends p - 1 + [r > 0] blocks.
    """
    return folded(_near_first, rank, world_size, lambda rank: (rank,))


def _far_first(rank: int, world_size: int) -> Schedule:
    return backwards(doubling.all_gather(rank, world_size), "before")


def _near_first(rank: int, world_size: int) -> Schedule:
    """In the step of distance d go the blocks whose numbers end, in their last bits, as the partner's."""
    distance = 1
    while distance < world_size:
        partner, stride = rank ^ distance, 2 * distance
        yield (
            Send(partner, tuple(range(partner % stride, world_size, stride))),
            Recv(
                partner,
                tuple(range(rank % stride, world_size, stride)),
                "before" if partner < rank else "after",
            ),
        )
        distance = stride
