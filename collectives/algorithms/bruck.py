"""Bruck's two algorithms: logarithmic steps on any number of ranks, with blocks that travel together.

Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal and D. Weathersby, Efficient algorithms for all-to-all
communications in multiport message-passing systems, IEEE TPDS 1997. There the blocks lie in the order in
which they come in, and are rotated before and after; here they have names, so that none is left to rotate.
"""

from collectives.schedule import Recv, Schedule, Send


def all_gather(rank: int, world_size: int) -> Schedule:
    """Every rank ends with every block: what each rank holds doubles in every step.

    A rank that holds ``held`` blocks, its own and those that follow, sends them that far back, and gets as
    many that follow on: in the last step no more than are missing.

    Cost: ⌈log p⌉ steps, every rank sends p - 1 blocks.
    """
    held = 1
    while held < world_size:
        behind, ahead = (rank - held) % world_size, (rank + held) % world_size
        num_blocks = min(held, world_size - held)
        yield (
            Send(behind, _from(rank, num_blocks, world_size)),
            Recv(ahead, _from(ahead, num_blocks, world_size)),
        )
        held += num_blocks


def all_to_all(rank: int, world_size: int) -> Schedule:
    """Block (s, d) ends on rank d: its way of d - s places is gone in powers of two, the smallest first.

    In the step of distance 2^k go all blocks whose whole way has that bit: fewer messages than pairwise, and
    a block that goes three hops is sent three times.

    Cost: ⌈log p⌉ steps, every rank sends bits(p) blocks: the bits that are set in 0 to p - 1.
    """
    distance = 1
    while distance < world_size:
        ahead, behind = (rank + distance) % world_size, (rank - distance) % world_size
        yield (
            Send(ahead, _that_hop(rank, distance, world_size)),
            Recv(behind, _that_hop(behind, distance, world_size)),
        )
        distance *= 2


def _that_hop(rank: int, distance: int, world_size: int) -> tuple[tuple[int, int], ...]:
    """The blocks that leave ``rank`` in the step of this distance: the lower bits of their way are behind."""
    ways = (way for way in range(world_size) if way & distance)
    sources = (((rank - way % distance) % world_size, way) for way in ways)
    return tuple((source, (source + way) % world_size) for source, way in sources)


def _from(first: int, num_blocks: int, world_size: int) -> tuple[int, ...]:
    return tuple(block % world_size for block in range(first, first + num_blocks))
