"""Neighbour exchange: a ring's neighbours, half of its steps, and twice as much in each.

Source: J. Chen, L. Zhang, Y. Zhang and W. Yuan, Performance evaluation of allgather algorithms on terascale
Linux cluster with fast Ethernet, HPC Asia 2005.
"""

from collectives.schedule import Recv, Schedule, Send


def all_gather(rank: int, world_size: int) -> Schedule:
    """Every rank ends with every block. For an even number of ranks.

    Ranks 2q and 2q + 1 are mates, and their blocks pair q. Mates swap blocks; from then on each rank swaps
    pairs with its other neighbour and its mate in turn, and gives the pair that it has got last.

    Cost: p / 2 steps, every rank sends p - 1 blocks.
    """
    num_pairs = world_size // 2
    mate, outwards = rank ^ 1, 1 if rank % 2 else -1
    yield Send(mate, (rank,)), Recv(mate, (mate,))
    have = rank // 2
    for step in range(1, num_pairs):
        peer = (rank + outwards) % world_size if step % 2 else mate
        # What comes in is one pair further out than all that came from there before.
        get = (have + (outwards if step % 2 else -outwards) * step) % num_pairs
        yield Send(peer, (2 * have, 2 * have + 1)), Recv(peer, (2 * get, 2 * get + 1))
        have = get
