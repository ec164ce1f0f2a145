"""What one rule of an optimizer updates of a layer on one rank."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy.typing as npt

from collectives.blocks import bounds
from collectives.communicator import IN_PLACE, Communicator
from zero_emulator.cuts import overlaps
from zero_emulator.layout import Array, Empty
from zero_emulator.optimizers import MuonMatrix, Rule, RuleAt
from zero_emulator.theory import Sizes


@dataclass
class Part:
    """A rule with its state, and where in what the rank updates of the layer it works."""

    place: slice
    rule: Rule
    state: dict[str, Array]

    def update(self, params: Array, grads: Array, iteration: int, scale: float, empty: Empty) -> None:
        """Update this part of ``params``, which is all that the rank updates of the layer."""
        self.rule.update(params[self.place], grads[self.place], self.state, iteration, scale, empty)


@dataclass
class SharedMatrix:
    """A part of a matrix that is Muon's: the ranks that share it gather what they have corrected.

    Each of them sends and receives the update once, in the dtype of the parameters that it updates, and
    orthogonalizes it alike. ``sizes`` are elements of each rank of ``group``.
    """

    place: slice
    rule: MuonMatrix
    state: dict[str, Array]
    sizes: Sizes
    group: Communicator

    def update(self, params: Array, grads: Array, iteration: int, scale: float, empty: Empty) -> None:
        own = bounds(self.sizes)[self.group.rank]
        whole = empty(sum(self.sizes), params.dtype)
        self.rule.correct(grads[self.place], self.state, scale, empty, out=whole[own])
        self.group.all_gather(IN_PLACE, whole, sizes=self.sizes).wait()
        self.rule.apply(params[self.place], whole, own, empty)


@dataclass
class Groups:
    """Communicators among some ranks of ``comm``, each split off once. Every rank asks for the same."""

    comm: Communicator
    known: dict[tuple[int, ...], Communicator | None] = field(default_factory=dict)

    def among(self, ranks: tuple[int, ...]) -> Communicator | None:
        """The one among these ranks; None on a rank that is not one of them."""
        if ranks == tuple(range(self.comm.world_size)):
            return self.comm
        if ranks not in self.known:
            self.known[ranks] = self.comm.split(0 if self.comm.rank in ranks else None, self.comm.rank)
        return self.known[ranks]


def whole_parts(rules: Sequence[RuleAt], dtype: npt.DTypeLike) -> list[Part | SharedMatrix]:
    """The parts of a rank that updates all of a layer."""
    return [Part(place, rule, rule.new_state(place.stop - place.start, dtype)) for place, rule in rules]


def block_parts(
    rules: Sequence[RuleAt], sizes: Sizes, groups: Groups, dtype: npt.DTypeLike
) -> list[Part | SharedMatrix]:
    """The parts of a rank that updates its block of a layer. Every rank calls it."""
    comm = groups.comm
    own = bounds(sizes)[comm.rank]
    parts: list[Part | SharedMatrix] = []
    for place, rule in rules:
        shares = overlaps(sizes, place)
        members = tuple(rank for rank, share in enumerate(shares) if share)
        group = None
        if isinstance(rule, MuonMatrix) and len(members) > 1:
            group = groups.among(members)  # before any rank leaves: a split is a collective
        if not shares[comm.rank]:
            continue
        start = max(place.start, own.start) - own.start
        here = slice(start, start + shares[comm.rank])
        state = rule.new_state(shares[comm.rank], dtype)
        if group is None:
            parts.append(Part(here, rule, state))
        else:
            assert isinstance(rule, MuonMatrix), "only Muon's matrices are shared"
            parts.append(SharedMatrix(here, rule, state, tuple(filter(None, shares)), group))
    return parts
