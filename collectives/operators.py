"""How two operands become one: what a reduction does with a block that comes in."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Combine(Protocol):
    """What a NumPy ufunc of two operands is, for one."""

    def __call__(self, left: Array, right: Array, /, *, out: Array) -> object: ...


@dataclass(frozen=True)
class Operator:
    """An associative operator: ``combine(left, right, out=out)`` writes ``left op right`` into ``out``.

    ``out`` may be either operand. Say that it does not commute, and the algorithms that reorder refuse it.
    """

    name: str
    combine: Combine
    commutative: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ValueError(f"an operator named {self.name!r}: give it a text for a name")
        if not callable(self.combine):
            raise ValueError(f"operator {self.name!r} combines by {self.combine!r}: give a function")


SUM = Operator("sum", np.add)
PROD = Operator("prod", np.multiply)
MAX = Operator("max", np.maximum)
MIN = Operator("min", np.minimum)

OPERATORS = {operator.name: operator for operator in (SUM, PROD, MAX, MIN)}


def find_operator(operator: str | Operator) -> Operator:
    """The operator of that name, or the one given; ValueError names those that exist."""
    if isinstance(operator, Operator):
        return operator
    if not isinstance(operator, str) or operator not in OPERATORS:
        raise ValueError(f"no operator {operator!r}: there are {', '.join(OPERATORS)}, or give an Operator")
    return OPERATORS[operator]
