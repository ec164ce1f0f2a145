"""Broadcast and reduce in two halves: cut among the ranks, so that all of them carry their share.

The binomial tree moves everything in every step. Here the root gives each rank a block, and the ranks
give each other the rest; or they reduce a block each, and the root collects them. Sources: M. Barnett et
al., Interprocessor collective communication library (InterCom), SHPCC 1994; R. Thakur, R. Rabenseifner
and W. Gropp, Optimization of collective communication operations in MPICH, IJHPCA 2005.
"""

from collectives.algorithms import ring, tree
from collectives.schedule import Schedule


def broadcast(rank: int, world_size: int, root: int) -> Schedule:
    """Every rank ends with what the root has: a scatter, then an all-gather, which the root has no need of.

    Cost: ⌈log p⌉ + p - 1 steps, the busiest rank sends 2(p - 1) blocks, the root.
    """
    yield from tree.scatter(rank, world_size, root)
    yield from ring.all_gather(rank, world_size)


def reduce(rank: int, world_size: int, root: int) -> Schedule:
    """The root ends with every block reduced: a reduce-scatter, then a gather. For operators that commute.

    Cost: p - 1 + ⌈log p⌉ steps, the busiest rank sends p - 1 + max(p - q, q / 2)[p > 1] blocks, q the
    largest power of two below p.
    """
    yield from ring.reduce_scatter(rank, world_size)
    yield from tree.gather(rank, world_size, root)
