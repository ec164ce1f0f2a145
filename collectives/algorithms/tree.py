"""The binomial tree: in each step as many ranks as have something to give find as many that lack it.

Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
MPICH, IJHPCA 2005. A single tree, so that its root is busy in every step and half of the ranks in two
only: the two trees of P. Sanders, J. Speck and J. L. Träff (Two-tree algorithms, Parallel Computing
2009) share it out.

What flows to rank 0 is written down; what flows from it is the same backwards, and for another root the ranks
are counted from there.
"""

from collectives.schedule import Block, Recv, Schedule, Send, backwards, rename


def all_reduce(rank: int, world_size: int) -> Schedule:
    """Every rank ends with every block reduced, the operands in rank order.

    Cost: 2⌈log p⌉ steps, the busiest rank sends p⌈log p⌉ blocks.
    """
    yield from _reduce(rank, world_size)
    yield from backwards(_reduce(rank, world_size))


def broadcast(rank: int, world_size: int, root: int) -> Schedule:
    """Every rank ends with what the root has.

    Cost: ⌈log p⌉ steps, the busiest rank sends p⌈log p⌉ blocks, the root.
    """
    return backwards(reduce(rank, world_size, root))


def reduce(rank: int, world_size: int, root: int) -> Schedule:
    """The root ends with every block reduced, the operands in order from the root: for those that commute.

    Cost: ⌈log p⌉ steps, the busiest rank sends p[p > 1] blocks, like every other but the root.
    """
    return rename(
        _reduce((rank - root) % world_size, world_size), peer=lambda place: (place + root) % world_size
    )


def ordered_reduce(rank: int, world_size: int, root: int) -> Schedule:
    """The root ends with every block reduced, the operands in rank order: rank 0 has them first.

    Cost: ⌈log p⌉ + [p > 1] steps, the busiest rank sends p[p > 1] blocks.
    """
    everything = tuple(range(world_size))
    yield from _reduce(rank, world_size)
    if world_size > 1:
        if root == 0 or rank not in (0, root):
            yield ()
        else:
            yield (Send(root, everything) if rank == 0 else Recv(0, everything),)


def gather(rank: int, world_size: int, root: int) -> Schedule:
    """The root ends with every block.

    Cost: ⌈log p⌉ steps, the busiest rank sends max(p - q, q / 2)[p > 1] blocks, q the largest power of two
    below p.
    """

    def from_root(place: Block) -> int:
        assert isinstance(place, int)
        return (place + root) % world_size

    return rename(_gather((rank - root) % world_size, world_size), block=from_root, peer=from_root)


def scatter(rank: int, world_size: int, root: int) -> Schedule:
    """Block r ends on rank r.

    Cost: ⌈log p⌉ steps, the busiest rank sends p - 1 blocks, the root.
    """
    return backwards(gather(rank, world_size, root))


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


def _gather(rank: int, world_size: int) -> Schedule:
    """Rank 0 ends with all. After the step of distance d every 2d-th rank holds the blocks of 2d in a row."""
    distance = 1
    while distance < world_size:
        if rank % (2 * distance) == distance:
            yield (Send(rank - distance, _in_a_row(rank, distance, world_size)),)
        elif rank % (2 * distance) == 0 and rank + distance < world_size:
            yield (Recv(rank + distance, _in_a_row(rank + distance, distance, world_size)),)
        else:
            yield ()
        distance *= 2


def _in_a_row(first: int, number: int, world_size: int) -> tuple[int, ...]:
    return tuple(range(first, min(first + number, world_size)))
