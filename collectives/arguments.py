"""What a collective call is given, checked: a fault is a ValueError with the numbers and the way out."""

from collections.abc import Sequence
from enum import Enum
from operator import index
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from collectives.algorithms import Algorithm
from collectives.blocks import even_cut
from collectives.engine import Binding
from collectives.operators import Operator

Array = npt.NDArray[Any]


class InPlace(Enum):
    """What stands for the input when the call works in place."""

    IN_PLACE = "IN_PLACE"


IN_PLACE: Final = InPlace.IN_PLACE


def flat(name: str, array: Array) -> Array:
    """The array as one row of numbers: a view, never a copy."""
    if not isinstance(array, np.ndarray) or array.dtype.hasobject:
        raise ValueError(
            f"the {name} is {type(array).__name__} of {getattr(array, 'dtype', 'no dtype')}: "
            "give a NumPy array of numbers"
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


def block_sizes(total: int, world_size: int, sizes: Sequence[int] | None) -> tuple[int, ...]:
    """The elements of each rank's block: those given, or an even cut of all."""
    if sizes is None:
        return even_cut(total, world_size)
    if len(sizes) != world_size or min(sizes) < 0:
        raise ValueError(f"block sizes {tuple(sizes)} for {world_size} ranks: one a rank, 0 or more")
    return tuple(index(size) for size in sizes)


def check_operator(algorithm: Algorithm, operator: Operator | None) -> None:
    """An algorithm that reorders its operands takes none that does not commute."""
    if operator is not None and algorithm.commutative_only and not operator.commutative:
        raise ValueError(
            f"{algorithm} reorders its operands, and {operator.name!r} does not commute: "
            "take an algorithm that keeps their order"
        )


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
