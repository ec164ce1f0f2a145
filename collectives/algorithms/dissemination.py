"""The dissemination barrier: in each step every rank has heard of twice as many that have come.

Source: D. Hensgen, R. Finkel and U. Manber, Two algorithms for barrier synchronization, IJPP 1988. It is
Bruck's all-gather of signals without bytes: who has one from everybody, perhaps through others, knows
that all are there.
"""

from collectives.algorithms import bruck
from collectives.schedule import Schedule


def barrier(rank: int, world_size: int) -> Schedule:
    """No rank gets to its end before every rank has begun.

    Cost: ⌈log p⌉ steps, every rank sends p - 1 blocks, in a message a step.
    """
    return bruck.all_gather(rank, world_size)
