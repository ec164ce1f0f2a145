"""What algorithm="auto" means: the first line that fits of a table by collective, ranks and bytes."""

from collections.abc import Sequence
from typing import NamedTuple

from collectives.algorithms import ALGORITHMS, Algorithm


class Choice(NamedTuple):
    """A line of the table: up to so many bytes, on so many ranks, this algorithm. None sets no bound.

    The bytes are those of all blocks together, so they are the same on every rank.
    """

    collective: str
    least_ranks: int
    most_ranks: int | None
    up_to_bytes: int | None
    algorithm: str

    def fits(self, collective: str, world_size: int, num_bytes: int) -> bool:
        return (
            self.collective == collective
            and self.least_ranks <= world_size <= (self.most_ranks or world_size)
            and (self.up_to_bytes is None or num_bytes <= self.up_to_bytes)
        )


KILO, MEGA = 2**10, 2**20

BUILT_IN = (
    Choice("all_gather", 1, 16, None, "direct"),
    Choice("all_gather", 17, None, 64 * KILO, "bruck"),
    Choice("all_gather", 17, None, None, "ring"),
    Choice("reduce_scatter", 1, 16, None, "direct"),
    Choice("reduce_scatter", 17, None, 512 * KILO, "recursive_halving"),
    Choice("reduce_scatter", 17, None, None, "ring"),
    Choice("reduce_scatter", 17, None, None, "ordered_halving"),
    Choice("all_reduce", 1, 4, 256 * KILO, "recursive_doubling"),
    Choice("all_reduce", 1, 4, None, "ring"),
    Choice("all_reduce", 5, None, MEGA, "tree"),
    Choice("all_reduce", 5, None, None, "rabenseifner"),
    Choice("all_reduce", 1, None, None, "recursive_doubling"),
)
"""The last line of each collective keeps operands in rank order.

Up to 8 ranks these are the quickest of `collectives bench --algorithm all` from 1 KiB to 32 MiB, on 2 cores,
over MPICH and Open MPI through shared memory. There every step costs a change of ranks on a core, so few
steps win: `direct` has one, at the price of scratch memory for a block of every other rank. Beyond, they are
the textbook's (Thakur, Rabenseifner and Gropp, 2005): few steps for few bytes, few bytes for many.
"""


def choose(
    collective: str, world_size: int, num_bytes: int, commutes: bool, table: Sequence[Choice] = BUILT_IN
) -> Algorithm:
    """The algorithm of the first line that fits: within its limits, and in order if the operator needs it.

    Alike on every rank that is given the same table. ValueError if no line fits: BUILT_IN has one for each
    collective, world size and size, so end your table with it.
    """
    for choice in table:
        if choice.fits(collective, world_size, num_bytes):
            algorithm = ALGORITHMS[choice.algorithm, collective]
            if algorithm.limit.allows(world_size) and (commutes or not algorithm.commutative_only):
                return algorithm
    kept = "" if commutes else ", in rank order"
    raise ValueError(
        f"no line of the table is for {collective} of {num_bytes} bytes on {world_size} ranks{kept}: "
        "name an algorithm"
    )
