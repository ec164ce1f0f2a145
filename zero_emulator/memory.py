"""What is alive on a rank, by kind: found by looking, not by asking."""

import gc
from collections import Counter
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from collectives.communicator import Communicator
from zero_emulator.layout import Array
from zero_emulator.offload import Copier
from zero_emulator.strategies import Strategy

UNDECLARED = "undeclared"


def alive_bytes(strategy: Strategy) -> dict[str, int]:
    """Bytes of the arrays that a strategy keeps alive, by kind; what no kind claims is "undeclared".

    Every array that can be reached from the strategy counts, once, with the whole memory that it keeps alive:
    a shard that is a view of the full weight does not pass for small, and a copy that hides in some attribute
    does not pass at all. Left out are the version table, and what belongs to communicators
    and to the copy thread.
    """
    kind_of = {
        id(_memory(array)): kind
        for params in strategy.layers
        for kind, arrays in params.arrays().items()
        for array in arrays
    }
    alive: Counter[str] = Counter({kind: 0 for params in strategy.layers for kind in params.arrays()})
    for array in _reachable(strategy):
        alive[kind_of.get(id(array), UNDECLARED)] += array.nbytes
    return dict(alive)


def _reachable(strategy: Strategy) -> list[Array]:
    todo: list[Any] = [value for name, value in vars(strategy).items() if name != "versions"]
    seen = {id(strategy), id(strategy.versions)}
    arrays = {}
    while todo:
        one = todo.pop()
        if isinstance(one, np.ndarray):
            arrays[id(_memory(one))] = _memory(one)
        elif id(one) not in seen and not isinstance(
            one, (Communicator, Copier, type, ModuleType, FunctionType, BuiltinFunctionType)
        ):
            seen.add(id(one))
            todo += gc.get_referents(one)
    return list(arrays.values())


def _memory(array: Array) -> Array:
    """The array that owns the memory."""
    return array if array.base is None else array.base
