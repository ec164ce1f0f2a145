"""The ring: every rank talks to its two neighbours only, and the wire is never idle.

Source: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC
2009. Cost with n bytes in all on p ranks, alpha a message, beta a byte, gamma a byte reduced: all_gather
(p-1) alpha + n (p-1)/p beta, reduce_scatter the same + n (p-1)/p gamma, all_reduce the sum of the two.

With s_r the size of block r and S their sum, rank r sends exactly

    reduce_scatter   S - s_r            and receives   S - s_(r-1)
    all_gather       S - s_(r+1)        and receives   S - s_r
"""

from collectives.schedule import Recv, Schedule, Send


def all_gather(rank: int, world_size: int) -> Schedule:
    """Every rank ends with every block.

    In step s rank r sends block r - s to its right neighbour and receives block r - s - 1 from its left.

    Cost: p - 1 steps, every rank sends p - 1 blocks.
    """
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    for step in range(world_size - 1):
        outgoing, incoming = (rank - step) % world_size, (rank - step - 1) % world_size
        yield Send(right, (outgoing,)), Recv(left, (incoming,))


def reduce_scatter(rank: int, world_size: int) -> Schedule:
    """Block r ends reduced on rank r. For operators that commute.

    In step s rank r sends its partial sum of block r - s - 1 to the right and adds what comes from the left
    to block r - s - 2. So block b sets out from rank b + 1 and is added to, rank by rank, until it reaches
    rank b: the order of summation differs from block to block, but never from run to run.

    Cost: p - 1 steps, every rank sends p - 1 blocks.
    """
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    for step in range(world_size - 1):
        outgoing, incoming = (rank - step - 1) % world_size, (rank - step - 2) % world_size
        yield Send(right, (outgoing,)), Recv(left, (incoming,), "before")


def all_reduce(rank: int, world_size: int) -> Schedule:
    """Every rank ends with every block reduced. For operators that commute.

    Cost: 2(p - 1) steps, every rank sends 2(p - 1) blocks.
    """
    yield from reduce_scatter(rank, world_size)
    yield from all_gather(rank, world_size)
