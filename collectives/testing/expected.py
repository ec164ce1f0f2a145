"""What must come out of each collective, by definition: apart from promises, plans and proofs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from collectives.blocks import bounds
from collectives.testing.cases import Array, Case

Arrays = Sequence[Array | None]
"""One a rank; None where a rank has none."""


@dataclass(frozen=True)
class Given:
    """What all ranks put into a call."""

    case: Case
    inputs: Arrays

    @property
    def joined(self) -> Array:
        """All inputs, one after the other."""
        return np.concatenate([one for one in self.inputs if one is not None])

    @property
    def sums(self) -> list[Array]:
        """Of the inputs of ranks 0 to r, for each r."""
        return list(accumulate((one for one in self.inputs if one is not None), self.combine))

    @property
    def of_root(self) -> Array:
        """The root's input."""
        given = self.inputs[self.case.root]
        assert given is not None, "the root of a collective that starts there has an input"
        return given

    def combine(self, left: Array, right: Array) -> Array:
        out = np.empty_like(left)
        self.case.operator.combine(left, right, out=out)
        return out

    def cut(self, whole: Array) -> list[Array]:
        """Each rank's block."""
        return [whole[place] for place in bounds(self.case.sizes)]

    def everywhere(self, result: Array) -> Arrays:
        return [result] * len(self.inputs)

    def on_root(self, result: Array) -> Arrays:
        return [result if rank == self.case.root else None for rank in range(len(self.inputs))]


class Definition(NamedTuple):
    """A collective: how many elements each rank gives, what each gets, and all that its call is given."""

    gives: Callable[[Case], Sequence[int | None]]
    gets: Callable[[Given], Arrays]
    takes: tuple[str, ...]


def _block(case: Case) -> Sequence[int]:
    return case.sizes


def _whole(case: Case) -> Sequence[int]:
    return [sum(case.sizes)] * len(case.sizes)


def _whole_on_root(case: Case) -> Sequence[int | None]:
    return [sum(case.sizes) if rank == case.root else None for rank in range(len(case.sizes))]


def _nothing(case: Case) -> Sequence[None]:
    return [None] * len(case.sizes)


def _columns(given: Given) -> Arrays:
    """The blocks that ranks 0, 1 and so on have for each rank."""
    rows = [
        [one[place] for place in bounds(row)]
        for one, row in zip(given.inputs, given.case.pairs, strict=True)
        if one is not None
    ]
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


MOVES, REDUCES = ("input", "output", "sizes"), ("input", "output", "sizes", "operator")

DEFINITIONS = {
    "all_gather": Definition(_block, lambda given: given.everywhere(given.joined), MOVES),
    "reduce_scatter": Definition(_whole, lambda given: given.cut(given.sums[-1]), REDUCES),
    "all_reduce": Definition(_whole, lambda given: given.everywhere(given.sums[-1]), REDUCES),
    "broadcast": Definition(
        _whole_on_root, lambda given: given.everywhere(given.of_root), ("buffer", "sizes", "root")
    ),
    "reduce": Definition(_whole, lambda given: given.on_root(given.sums[-1]), (*REDUCES, "root")),
    "gather": Definition(_block, lambda given: given.on_root(given.joined), (*MOVES, "root")),
    "scatter": Definition(_whole_on_root, lambda given: given.cut(given.of_root), (*MOVES, "root")),
    "all_to_all": Definition(_whole, _columns, MOVES),
    "barrier": Definition(_nothing, lambda given: given.inputs, ()),
    "scan": Definition(_whole, lambda given: given.sums, REDUCES),
    "exscan": Definition(_whole, lambda given: [None, *given.sums[:-1]], REDUCES),
}


class Part(NamedTuple):
    """What one rank gives and gets in a call; None: nothing. ``own``: where its block lies in the whole."""

    input: Array | None
    output: Array | None
    own: slice


def make_parts(collective: str, case: Case) -> tuple[Part, ...]:
    """The part of every rank in a call of this collective."""
    gives, gets, _ = DEFINITIONS[collective]
    inputs = [None if count is None else case.numbers(rank, count) for rank, count in enumerate(gives(case))]
    outputs = gets(Given(case, inputs))
    return tuple(map(Part, inputs, outputs, bounds(case.sizes)))
