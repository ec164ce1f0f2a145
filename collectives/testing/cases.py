"""The calls that every algorithm must survive: how they are made, and the numbers that go in.

Numbers are small and whole, so that every sum and product of them is exact in every dtype: nothing that comes
out may differ from what must by a single bit.
"""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from collectives.blocks import even_cut
from collectives.operators import OPERATORS, SUM, Operator

Array = npt.NDArray[Any]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = (*map(np.dtype, ("int64", "float32", "uint8", "complex128", "bool")), BFLOAT16)
UNORDERED = ("sum", "prod")
"""The operators of complex numbers, which have no order."""


def _multiply(left: Array, right: Array, /, *, out: Array) -> None:
    """Products of 2 by 2 matrices, which lie one after the other."""
    out[...] = (left.reshape(-1, 2, 2) @ right.reshape(-1, 2, 2)).reshape(-1)


MATRICES = Operator("matrices", _multiply, commutative=False)


@dataclass(frozen=True)
class Case:
    """One call: how large each rank's block is, of what, and how it is made.

    ``rounds``: its numbers are such that sums are rounded, so that their order shows.
    """

    sizes: tuple[int, ...]
    dtype: np.dtype[Any] = DTYPES[0]
    operator: Operator = SUM
    in_place: bool = False
    root: int = 0
    num_chunks: int = 1
    rounds: bool = False

    def __str__(self) -> str:
        numbers = f"blocks of {', '.join(map(str, self.sizes))} {self.dtype.name}"
        chunks = f"{self.num_chunks} chunks" if self.num_chunks > 1 else ""
        return ", ".join(
            filter(None, (numbers, self.operator.name, chunks, "in place" if self.in_place else ""))
        )

    @property
    def pairs(self) -> tuple[tuple[int, ...], ...]:
        """What each rank has for each of them: a row as uneven as the blocks, turned on from rank to rank."""
        return tuple(self.sizes[rank:] + self.sizes[:rank] for rank in range(len(self.sizes)))

    @property
    def chunk_bytes(self) -> int | None:
        """What cuts the largest block into so many chunks."""
        if self.num_chunks == 1:
            return None
        return max(1, -(-max(self.sizes) * self.dtype.itemsize // self.num_chunks))

    def numbers(self, rank: int, count: int) -> Array:
        """So many numbers that no other rank has, for all that can tell: the same in every process."""
        if self.rounds:
            return np.random.default_rng(rank).standard_normal(count).astype(self.dtype)
        place = np.arange(count)
        if self.operator.name == "prod":
            found = 1 + (place + rank) % 2  # powers of two up to 2**ranks: exact in bfloat16, too
        else:
            found = (place * 7 + rank * rank) % 5 + rank % 3
        return found.astype(self.dtype)


def make_cases(world_size: int, parts: int = 1) -> tuple[Case, ...]:
    """What is called on so many ranks; over several world sizes everything meets everything.

    From no element to one more than ranks, in uneven blocks, in one block alone, and many that do not
    divide. Then matrices, each whole in one of the ``parts`` of a block, and last sums that are rounded.
    """
    cuts = (
        *(even_cut(max(0, count), world_size) for count in (0, 1, *range(world_size - 1, world_size + 2))),
        tuple(3 * (rank % 3) for rank in range(world_size)),
        (0,) * (world_size - 1) + (3,),
        even_cut(1000 * world_size + 1, world_size),
    )
    exact = [_turn(sizes, number, world_size) for number, sizes in enumerate(cuts)]
    matrices = tuple(4 * parts * (1 + rank % 3) for rank in range(world_size))
    return (
        *exact,
        Case(matrices, operator=MATRICES, root=world_size // 2),
        Case(even_cut(50 * world_size + 1, world_size), DTYPES[1], root=world_size // 2, rounds=True),
    )


def _turn(sizes: tuple[int, ...], number: int, world_size: int) -> Case:
    """The case of that number, one of 8: over 8 world sizes everything has met everything else."""
    turn = number + 8 * (world_size - 1)
    dtype = DTYPES[turn % len(DTYPES)]
    operators = UNORDERED if dtype.kind == "c" else tuple(OPERATORS)
    return Case(
        sizes,
        dtype,
        OPERATORS[operators[turn // 6 % len(operators)]],
        in_place=(turn // 6 + world_size) % 2 == 1,
        root=turn % world_size,
        num_chunks=3 if (turn // 3 + world_size) % 2 and max(sizes) > 1 else 1,
    )
