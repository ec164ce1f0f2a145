"""Two levels: within each host, between hosts, within each host again.

Source: M. Cho et al., BlueConnect: decomposing all-reduce for deep learning on heterogeneous network
hierarchy, MLSys 2019. Of n bytes on H hosts, 2 n (1 - 1/H) leave each host, hardly less than in a ring; but
all ranks of the host send their share of them at once, in place of the last one alone, and the many steps of
a ring through all ranks become the few of a ring within a host and of one between hosts.
"""

from functools import partial

from collectives.algorithms import ring
from collectives.algorithms.algorithm import Algorithm, Cost, Limit
from collectives.promises import ALL_REDUCE
from collectives.schedule import Block, Schedule, rename, spread


def all_reduce(rank: int, world_size: int, ranks_a_host: int) -> Schedule:
    """Every rank ends with every block reduced. For operators that commute, and hosts of equal size.

    Ranks are numbered host by host. Blocks go in as many shares as a host has ranks, one block a host in
    each: share s is reduced to the rank in place s of every host, and then block by block between hosts.

    Cost: 2(h - 1) + 2(p / h - 1) steps, every rank sends 2(p - 1) blocks; h ranks share a host.
    """
    num_hosts = world_size // ranks_a_host
    host, place = divmod(rank, ranks_a_host)

    def in_this_host(place: int) -> int:
        return host * ranks_a_host + place

    def in_this_place(host: int) -> int:
        return host * ranks_a_host + place

    def share(place: Block) -> tuple[Block, ...]:
        assert isinstance(place, int)
        return tuple(range(place * num_hosts, (place + 1) * num_hosts))

    def block_of(host: Block) -> Block:
        assert isinstance(host, int)
        return share(place)[host]

    yield from spread(rename(ring.reduce_scatter(place, ranks_a_host), peer=in_this_host), share)
    yield from rename(ring.all_reduce(host, num_hosts), block=block_of, peer=in_this_place)
    yield from spread(rename(ring.all_gather(place, ranks_a_host), peer=in_this_host), share)


def on_hosts_of(ranks_a_host: int) -> Algorithm:
    """The algorithm for hosts of so many ranks. Keep it: a second one is proved, and planned, anew."""
    if not isinstance(ranks_a_host, int) or ranks_a_host < 1:
        raise ValueError(f"hosts of {ranks_a_host} ranks: give a whole number from 1")
    return Algorithm(
        f"two_level_{ranks_a_host}",
        ALL_REDUCE,
        partial(all_reduce, ranks_a_host=ranks_a_host),
        commutative_only=True,
        limit=Limit(f"a multiple of {ranks_a_host}", lambda world_size: world_size % ranks_a_host == 0),
        cost=Cost(
            steps=lambda world_size: 2 * (ranks_a_host - 1) + 2 * (world_size // ranks_a_host - 1),
            blocks_sent=lambda world_size: 2 * (world_size - 1),
        ),
    )
