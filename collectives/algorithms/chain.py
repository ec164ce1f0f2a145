"""The pipelined chain: every rank passes a block on to the next one, while the next block is coming in.

With n bytes in p blocks each takes p - 1 hops, but all links are busy at once: 2(p - 1) alpha + 2 n (p -
1)/p beta in place of the (p - 1)(alpha + n beta) of a chain that waits for everything. Cut into chunks,
it takes hardly longer than n bytes to a neighbour. Source: R. Thakur, R. Rabenseifner and W. Gropp,
Optimization of collective communication operations in MPICH, IJHPCA 2005, on pipelined broadcasts.
"""

from collectives.schedule import Recv, Schedule, Send


def broadcast(rank: int, world_size: int, root: int) -> Schedule:
    """Every rank ends with what the root has.

    In step s the rank at place i, counted from the root, sends block s - i to the next one, and receives
    block s - i + 1 from the one before.

    Cost: 2(p - 1) steps, the busiest rank sends p[p > 1] blocks, like every other but the last.
    """
    place = (rank - root) % world_size
    ahead, behind = (rank + 1) % world_size, (rank - 1) % world_size
    for step in range(2 * (world_size - 1)):
        outgoing, incoming = step - place, step - place + 1
        sends = (Send(ahead, (outgoing,)),) if place + 1 < world_size and 0 <= outgoing < world_size else ()
        takes = (Recv(behind, (incoming,)),) if place > 0 and 0 <= incoming < world_size else ()
        yield sends + takes
