"""Everybody to everybody at once: one step, and as many messages as there are pairs.

The latency of a single message, if the network can carry them all side by side; buffers for p - 1 blocks.
Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
MPICH, IJHPCA 2005, where the same messages, one partner at a time, are pairwise exchange.
"""

from collectives.schedule import Recv, Schedule, Send, backwards


def all_gather(rank: int, world_size: int) -> Schedule:
    """Every rank gives its block to each of the others.

    Cost: [p > 1] steps, every rank sends p - 1 blocks.
    """
    others = _others(rank, world_size)
    if others:
        yield tuple(operation for peer in others for operation in (Send(peer, (rank,)), Recv(peer, (peer,))))


def reduce_scatter(rank: int, world_size: int) -> Schedule:
    """Every rank gives each of the others the block that is theirs, and adds up its own in rank order.

    Receives take effect as they are listed: the lower ranks from the nearest down, each before what is there,
    then the upper ones from the nearest up, each after it.

    Cost: [p > 1] steps, every rank sends p - 1 blocks.
    """
    lower, upper = range(rank - 1, -1, -1), range(rank + 1, world_size)
    if world_size > 1:
        yield (
            *(Send(peer, (peer,)) for peer in (*upper, *lower)),
            *(Recv(peer, (rank,), "before") for peer in lower),
            *(Recv(peer, (rank,), "after") for peer in upper),
        )


def all_reduce(rank: int, world_size: int) -> Schedule:
    """Every rank adds up its block in rank order, then gives it to each of the others.

    Cost: 2[p > 1] steps, every rank sends 2(p - 1) blocks.
    """
    yield from reduce_scatter(rank, world_size)
    yield from all_gather(rank, world_size)


def gather(rank: int, world_size: int, root: int) -> Schedule:
    """Every rank gives its block to the root, and no rank needs to know the size of another's.

    Cost: [p > 1] steps, the busiest rank sends [p > 1] blocks.
    """
    if rank == root:
        takes = tuple(Recv(peer, (peer,)) for peer in _others(rank, world_size))
        yield from (takes,) * bool(takes)
    else:
        yield (Send(root, (rank,)),)


def scatter(rank: int, world_size: int, root: int) -> Schedule:
    """The root gives every rank its block, and no rank needs to know the size of another's.

    Cost: [p > 1] steps, the busiest rank sends p - 1 blocks, the root.
    """
    return backwards(gather(rank, world_size, root))


def all_to_all(rank: int, world_size: int) -> Schedule:
    """Block (s, d) goes from rank s to rank d, and no rank needs to know a size that is not its own.

    Cost: [p > 1] steps, every rank sends p - 1 blocks.
    """
    others = _others(rank, world_size)
    if others:
        yield tuple(
            operation
            for peer in others
            for operation in (Send(peer, ((rank, peer),)), Recv(peer, ((peer, rank),)))
        )


def _others(rank: int, world_size: int) -> tuple[int, ...]:
    """Those above first: so that not all ranks send to rank 0 at once."""
    return (*range(rank + 1, world_size), *range(rank))
