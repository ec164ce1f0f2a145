"""What algorithm="auto" means: the first line that fits of a table by collective, ranks and bytes."""

from collections.abc import Sequence
from typing import NamedTuple

from collectives.algorithms import ALGORITHMS, Algorithm

AUTO = "auto"


class Choice(NamedTuple):
    """A line of the table: up to so many bytes, on so many ranks, this algorithm. None sets no bound.

    The bytes are those of the largest array, as `collectives bench` prints them.
    """

    collective: str
    least_ranks: int
    most_ranks: int | None
    up_to_bytes: int | None
    algorithm: str

    def fits(self, collective: str, world_size: int, num_bytes: int | None) -> bool:
        """Whether it is for such a call; one of unknown size takes the lines that set no bound."""
        return (
            self.collective == collective
            and self.least_ranks <= world_size <= (self.most_ranks or world_size)
            and (self.up_to_bytes is None or (num_bytes is not None and num_bytes <= self.up_to_bytes))
        )


KILO = 2**10

BUILT_IN = (
    Choice("all_gather", 1, 16, None, "direct"),
    Choice("all_gather", 17, None, 64 * KILO, "bruck"),
    Choice("all_gather", 17, None, None, "ring"),
    Choice("reduce_scatter", 1, 16, None, "direct"),
    Choice("reduce_scatter", 17, None, 512 * KILO, "recursive_halving"),
    Choice("reduce_scatter", 17, None, None, "ring"),
    Choice("reduce_scatter", 17, None, None, "ordered_halving"),
    Choice("all_reduce", 1, 4, 256 * KILO, "recursive_doubling"),
    Choice("all_reduce", 5, None, 1024 * KILO, "tree"),
    Choice("all_reduce", 1, 16, None, "direct"),
    Choice("all_reduce", 17, None, None, "rabenseifner"),
    Choice("all_reduce", 17, None, None, "recursive_doubling"),
    Choice("broadcast", 9, None, 512 * KILO, "binomial"),
    Choice("broadcast", 9, None, None, "scatter_all_gather"),
    Choice("broadcast", 1, None, None, "binomial"),
    Choice("reduce", 1, None, None, "binomial"),
    Choice("reduce", 1, None, None, "ordered_binomial"),
    Choice("gather", 17, None, 64 * KILO, "binomial"),
    Choice("gather", 1, None, None, "direct"),
    Choice("scatter", 17, None, 64 * KILO, "binomial"),
    Choice("scatter", 1, None, None, "direct"),
    Choice("all_to_all", 17, None, 64 * KILO, "bruck"),
    Choice("all_to_all", 17, None, None, "pairwise"),
    Choice("all_to_all", 1, None, None, "direct"),
    Choice("barrier", 1, None, None, "dissemination"),
    Choice("scan", 1, None, None, "recursive_doubling"),
    Choice("exscan", 1, None, None, "recursive_doubling"),
)
"""The last lines of a collective keep operands in rank order, or need no sizes but a rank's own.

Up to 8 ranks these are the quickest of `collectives bench --algorithm all` from 1 KiB to 32 MiB, on 2 cores,
over MPICH and Open MPI through shared memory. There every step costs a change of ranks on a core, so few
steps win: `direct` has one, or two, at the price of scratch memory for a block of every other rank. Beyond,
they are the textbook's (Thakur, Rabenseifner and Gropp, 2005): few steps for few bytes, few bytes for many.
"""


def choose(
    collective: str,
    world_size: int,
    num_bytes: int | None,
    commutes: bool,
    table: Sequence[Choice] = BUILT_IN,
) -> Algorithm:
    """The algorithm of the first line that fits: within its limits, and in order if the operator needs it.

    ``num_bytes`` is None where ranks know different sizes: then it must do with a rank's own.
    Alike on every rank that is given the same table. ValueError if no line fits: BUILT_IN has one for each
    call, so end your table with it.
    """
    for choice in table:
        if choice.fits(collective, world_size, num_bytes):
            algorithm = ALGORITHMS[choice.algorithm, collective]
            if (
                algorithm.limit.allows(world_size)
                and (commutes or not algorithm.commutative_only)
                and (num_bytes is not None or algorithm.own_sizes)
            ):
                return algorithm
    size = "unknown size" if num_bytes is None else f"{num_bytes} bytes"
    kept = "" if commutes else ", in rank order"
    raise ValueError(
        f"no line of the table is for {collective} of {size} on {world_size} ranks{kept}: name an algorithm"
    )
