"""Control and audit traffic of an iteration: which of it falls due, and what each purpose sends."""

from collections.abc import Sequence
from typing import NamedTuple

from collectives.ledger import Kind
from zero_emulator.theory.muon import fetch_checks
from zero_emulator.theory.overhead import call_checks, digests, gathered_layers, scalar_all_reduces, versions
from zero_emulator.theory.rings import NOTHING, Flow, Sizes


class Due(NamedTuple):
    """What falls due in one iteration besides training, apart from the versions, which always do."""

    training_calls: int
    """Collectives for training of those who share layers: each is checked before it starts."""
    fetched: tuple[Sizes, ...]
    """Matrices that some of them fetch from each other, by their shares: those fetches are checked, too."""
    vote: bool
    """Whether all gradients are finite."""
    norm: bool
    """For clipping: not where a vote has put an end to the update."""
    digest: bool
    weight_bytes: int
    """Bytes of a number where all weights are gathered once more; 0 where they are not."""
    gradient_bytes: int
    """Bytes of a number where all gradients are gathered; 0 where they are not."""

    def calls(self, num_layers: int) -> int:
        """The collectives among those who share so many layers, whatever they are for."""
        gathers = bool(self.weight_bytes) + bool(self.gradient_bytes)
        return self.training_calls + 1 + gathers * num_layers

    @property
    def meetings(self) -> int:
        """The collectives of all ranks of the world."""
        return self.vote + self.norm + self.digest


PURPOSES: tuple[tuple[Kind, str], ...] = (
    ("control", "call checks"),
    ("control", "fetch checks"),
    ("control", "versions"),
    ("control", "vote"),
    ("control", "norm"),
    ("audit", "digest"),
    ("audit", "weights"),
    ("audit", "gradients"),
)
"""What ranks send besides training, in the order in which it is told."""


def overhead(due: Due, layers: Sequence[Sizes], rank: int) -> dict[tuple[Kind, str], Flow]:
    """Bytes that a rank sends and receives in an iteration besides training, by kind and purpose.

    Where all ranks share all layers, so that those who share are the world. All purposes are there, those
    that are not due with nothing.
    """
    of_sharers, of_world = sharers_overhead(due, layers, rank), world_overhead(due, len(layers[0]), rank)
    return {key: of_sharers.get(key, NOTHING) + of_world.get(key, NOTHING) for key in PURPOSES}


def sharers_overhead(due: Due, layers: Sequence[Sizes], rank: int) -> dict[tuple[Kind, str], Flow]:
    """What those send each other who share these layers, of whom this rank is the ``rank``-th."""
    num_sharers = len(layers[0])
    return {
        ("control", "call checks"): call_checks(due.calls(len(layers)), num_sharers, rank),
        ("control", "fetch checks"): fetch_checks(due.fetched, rank),
        ("control", "versions"): versions(len(layers), num_sharers, rank),
        ("audit", "weights"): gathered_layers(layers, rank, due.weight_bytes),
        ("audit", "gradients"): gathered_layers(layers, rank, due.gradient_bytes),
    }


def world_overhead(
    due: Due, world_size: int, rank: int, num_digests: int = 1
) -> dict[tuple[Kind, str], Flow]:
    """What all ranks of the world send each other; ``num_digests``: one for each class of a rank's layers."""
    return {
        ("control", "call checks"): call_checks(due.meetings, world_size, rank),
        ("control", "vote"): scalar_all_reduces(int(due.vote), world_size, rank),
        ("control", "norm"): scalar_all_reduces(int(due.norm), world_size, rank),
        ("audit", "digest"): digests(world_size, rank).times(num_digests * int(due.digest)),
    }
