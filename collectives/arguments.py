"""What a collective call is given, checked: a fault is a ValueError with the numbers and the way out."""

from collections.abc import Sequence
from enum import Enum
from numbers import Integral, Real
from operator import index
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from collectives.algorithms import Algorithm, check_commutes
from collectives.blocks import even_cut
from collectives.engine import Binding
from collectives.operators import Operator
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


def flat(name: str, array: Array) -> Array:
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


def block_sizes(total: int, world_size: int, sizes: Sequence[int] | None) -> tuple[int, ...]:
    """The elements of each rank's block: those given, or an even cut of all."""
    if sizes is None:
        return even_cut(total, world_size)
    try:
        cut = tuple(index(size) for size in sizes)
    except TypeError:
        raise ValueError(f"block sizes {sizes!r}: give a whole number of elements for each rank") from None
    if len(cut) != world_size or min(cut) < 0:
        raise ValueError(f"block sizes {cut} for {world_size} ranks: one a rank, 0 or more")
    return cut


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
    if not result.flags.writeable:
        raise ValueError(f"{algorithm}: the output is read-only: pass an array that may be written")
    if result.size != binding.output_size or (not in_place and source.size != binding.input_size):
        raise ValueError(
            f"{algorithm}: the blocks need {binding.input_size or 'no'} elements of input and "
            f"{binding.output_size} of output, there are {0 if in_place else source.size} and {result.size}"
        )
    if not in_place and np.may_share_memory(source, result):
        raise ValueError(f"{algorithm}: input and output share memory: pass IN_PLACE as the input")
