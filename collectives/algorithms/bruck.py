"""Bruck's concatenation: what each rank holds doubles in every step, on any number of ranks.

Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal and D. Weathersby, Efficient algorithms for all-to-all
communications in multiport message-passing systems, IEEE TPDS 1997. There the blocks lie in the order in
which they come in, and are rotated at the end; here they have names, so that none is left to rotate.
"""

from collectives.schedule import Recv, Schedule, Send


def all_gather(rank: int, world_size: int) -> Schedule:
    """Every rank ends with every block.

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


def _from(first: int, num_blocks: int, world_size: int) -> tuple[int, ...]:
    return tuple(block % world_size for block in range(first, first + num_blocks))
