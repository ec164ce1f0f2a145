"""One binomial tree: everything is reduced to rank 0, and handed out again the same way.

Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
MPICH, IJHPCA 2005. A single tree, so that rank 0 is busy in every step and half of the ranks in two only: the
two trees of P. Sanders, J. Speck and J. L. Träff (Two-tree algorithms, Parallel Computing 2009) share it out.
"""

from collectives.schedule import Recv, Schedule, Send, backwards


def all_reduce(rank: int, world_size: int) -> Schedule:
    """Every rank ends with every block reduced, the operands in rank order.

    Cost: 2⌈log p⌉ steps, the busiest rank sends p⌈log p⌉ blocks.
    """
    yield from _reduce(rank, world_size)
    yield from backwards(_reduce(rank, world_size))


def _reduce(rank: int, world_size: int) -> Schedule:
    """Rank 0 ends with all. After the step of distance d every 2d-th rank holds the sum of 2d in a row."""
    everything = tuple(range(world_size))
    distance = 1
    while distance < world_size:
        if rank % (2 * distance) == distance:
            yield (Send(rank - distance, everything),)
        elif rank % (2 * distance) == 0 and rank + distance < world_size:
            yield (Recv(rank + distance, everything, "after"),)
        else:
            yield ()
        distance *= 2
