"""Rabenseifner's all-reduce: the fewest bytes in a logarithmic number of steps.

Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
MPICH, IJHPCA 2005. There the ranks that were folded in are sent the whole result at the end; here they hold
their block of it like all others, and take part in an all-gather that needs no power of two.
"""

from collectives.algorithms import bruck, doubling, halving
from collectives.algorithms.algorithm import POWER_OF_TWO
from collectives.schedule import Schedule


def all_reduce(rank: int, world_size: int) -> Schedule:
    """Every rank ends with every block reduced. For operators that commute.

    A reduce-scatter by recursive halving, then an all-gather by recursive doubling, or else by Bruck's.

    Cost: ⌊log p⌋ + ⌈log p⌉ + 2[r > 0] steps, the busiest rank sends 2(p - 1) + [r > 0] blocks.
    """
    yield from halving.reduce_scatter(rank, world_size)
    family = doubling if POWER_OF_TWO.allows(world_size) else bruck
    yield from family.all_gather(rank, world_size)
