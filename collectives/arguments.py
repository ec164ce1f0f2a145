"""What a collective call is given, checked: a fault is a ValueError with the numbers and the way out."""

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from numbers import Integral, Real
from operator import index
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from collectives.algorithms import Algorithm, check_commutes, check_knows_sizes
from collectives.blocks import even_cut
from collectives.offsets import Binding, writes_output
from collectives.operators import Operator
from collectives.promises import Collective, Sizes
from collectives.transports.base import Transport

Array = npt.NDArray[Any]

TAUGHT = 2
"""What NumPy calls dtypes that others have registered."""


class InPlace(Enum):
    """What stands for the input when the call works in place."""

    IN_PLACE = "IN_PLACE"


IN_PLACE: Final = InPlace.IN_PLACE


def check_settings(transport: Any, time_limit: Any, chunk_bytes: Any) -> None:
    """What a Communicator is made with."""
    if not isinstance(transport, Transport):
        raise ValueError(
            f"the transport is of type {type(transport).__name__}: wrap it, as in MPITransport(comm)"
        )
    if not isinstance(time_limit, Real) or not float(time_limit) > 0:
        raise ValueError(f"a time limit of {time_limit!r} seconds: give a number above 0")
    if chunk_bytes is not None and (not isinstance(chunk_bytes, Integral) or int(chunk_bytes) < 1):
        raise ValueError(f"chunks of {chunk_bytes!r} bytes: give 1 or more, or None for one chunk a block")


def flat(name: str, array: Any) -> Array:
    """The array as one row of numbers: a view, never a copy."""
    if not isinstance(array, np.ndarray):
        raise ValueError(f"the {name} is of type {type(array).__name__}: give a NumPy array of numbers")
    if not is_number(array.dtype):
        raise ValueError(
            f"the {name} is an array of {array.dtype}: give one of numbers, such as a view of its bytes, "
            ".view(np.uint8)"
        )
    if type(array) is not np.ndarray:
        raise ValueError(
            f"the {name} is a {type(array).__name__}, which has rules of its own: pass np.asarray(...) of it"
        )
    if not array.flags.c_contiguous:
        raise ValueError(
            f"the {name} of shape {array.shape} is not C-contiguous: pass np.ascontiguousarray(...)"
        )
    return array.reshape(-1)


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether it is a boolean, integer, float or complex one, or a number that NumPy was taught, as bfloat16.

    No others: their names do not tell two of them apart, and what their sum would be nobody has said.
    """
    return dtype.kind in "biufc" or dtype.isbuiltin == TAUGHT


def find_sizes(algorithm: Algorithm, rank: int, world_size: int, largest: int, sizes: Any) -> Sizes:
    """The elements of each block: those given, or what the ``largest`` of this rank's arrays holds, cut.

    Evenly, where every rank has an array of all the blocks; else into equal ones, which all ranks know.
    """
    collective = algorithm.collective
    if collective.empty:
        return (0,) * world_size
    if sizes is None and all_see_all(collective, world_size):
        return even_cut(largest, world_size)
    if sizes is None:
        starts, ends = collective.starts_with(rank, world_size), collective.ends_with(rank, world_size)
        row = (_equal_cut(collective, largest, max(len(starts), len(ends))),) * world_size
        return (row,) * world_size if collective.by_pair else row
    if collective.by_pair:
        rows = _row(sizes, "a row of numbers", world_size, lambda row: row)
        found: Sizes = tuple(_numbers(row, world_size, True) for row in rows)
    else:
        found = _numbers(sizes, world_size, may_lack=not all_see_all(collective, world_size))
    unknown = next((block for block, size in collective.block_sizes(found).items() if size is None), None)
    if unknown is not None:
        check_knows_sizes(algorithm, unknown)
    return found


@lru_cache(maxsize=256)
def all_see_all(collective: Collective, world_size: int) -> bool:
    """Whether every rank has an array of all the blocks, so that all cut it alike."""
    return (
        all(
            len(collective.starts_with(rank, world_size)) == world_size
            or len(collective.ends_with(rank, world_size)) == world_size
            for rank in range(world_size)
        )
        and not collective.by_pair
    )


def _equal_cut(collective: Collective, total: int, num_blocks: int) -> int:
    if total % num_blocks:
        raise ValueError(
            f"{total} elements are not {num_blocks} equal blocks for {collective.name}: give the sizes of all"
        )
    return total // num_blocks


def _numbers(sizes: Any, world_size: int, may_lack: bool) -> tuple[int | None, ...]:
    what = "a whole number of elements"
    cut = _row(sizes, what, world_size, lambda size: None if may_lack and size is None else index(size))
    if any(size is not None and size < 0 for size in cut):
        raise ValueError(f"block sizes {cut} for {world_size} ranks: one a rank, 0 or more")
    return cut


def _row(values: Any, what: str, world_size: int, read: Callable[[Any], Any]) -> tuple[Any, ...]:
    try:
        row = tuple(map(read, values))
    except TypeError:
        raise ValueError(f"block sizes {values!r}: give {what} for each rank") from None
    if len(row) != world_size:
        raise ValueError(f"block sizes {row} for {world_size} ranks: one a rank, 0 or more")
    return row


def check_operator(algorithm: Algorithm, operator: Operator | None) -> None:
    """An algorithm that reorders its operands takes none that does not commute."""
    if operator is not None and not operator.commutative:
        check_commutes(algorithm, operator.name)


def check_arrays(
    algorithm: Algorithm, binding: Binding, source: Array, result: Array, in_place: bool
) -> None:
    """The arrays are what the blocks need, and are not each other's memory."""
    if source.dtype != result.dtype:
        raise ValueError(
            f"{algorithm}: the input is {source.dtype}, the output {result.dtype}: make them alike"
        )
    if not result.flags.writeable and writes_output(binding):
        raise ValueError(f"{algorithm}: the output is read-only: pass an array that may be written")
    num_given = 0 if in_place and not binding.input_size else source.size
    if result.size != binding.output_size or num_given != binding.input_size:
        raise ValueError(
            f"{algorithm}: the blocks need {binding.input_size or 'no'} elements of input and "
            f"{binding.output_size} of output, there are {num_given} and {result.size}"
        )
    if not in_place and np.may_share_memory(source, result):
        raise ValueError(f"{algorithm}: input and output share memory: pass IN_PLACE as the input")
