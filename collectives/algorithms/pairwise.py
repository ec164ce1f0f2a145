"""Pairwise exchange: in each step a rank sends to one partner, and receives from another, for itself.

Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
MPICH, IJHPCA 2005. A block goes straight from the rank that holds it to the one that needs it: so what a ring
passes on in p - 1 hops, here crosses the network in one, which suits one that is fully connected.
"""

from collectives.schedule import Recv, Schedule, Send


def reduce_scatter(rank: int, world_size: int) -> Schedule:
    """Block r ends reduced on rank r. For operators that commute.

    In step s rank r sends block r + s + 1 to its owner, and adds what comes from rank r - s - 1 to its own.

    Cost: p - 1 steps, every rank sends p - 1 blocks.
    """
    for distance in range(1, world_size):
        ahead, behind = (rank + distance) % world_size, (rank - distance) % world_size
        yield Send(ahead, (ahead,)), Recv(behind, (rank,), "before")


def all_to_all(rank: int, world_size: int) -> Schedule:
    """Block (s, d) goes from rank s to rank d.

    In step s rank r sends to rank r + s + 1, and receives from rank r - s - 1.

    Cost: p - 1 steps, every rank sends p - 1 blocks.
    """
    for distance in range(1, world_size):
        ahead, behind = (rank + distance) % world_size, (rank - distance) % world_size
        yield Send(ahead, ((rank, ahead),)), Recv(behind, ((behind, rank),))
