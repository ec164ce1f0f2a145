"""Control and audit traffic of an iteration: which of it falls due, and what each purpose sends."""

from collections.abc import Sequence
from typing import NamedTuple

from collectives.ledger import Kind
from zero_emulator.theory.muon import fetch_checks
from zero_emulator.theory.overhead import call_checks, digests, gathered_layers, scalar_all_reduces, versions
from zero_emulator.theory.rings import Flow, Sizes


class Due(NamedTuple):
    """What falls due in one iteration besides training, apart from the versions, which always do."""

    training_calls: int
    """Collectives of all ranks for training: each is checked before it starts."""
    fetched: tuple[Sizes, ...]
    """Matrices that some ranks fetch from each other, by their shares: those fetches are checked, too."""
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
        """The collectives of all ranks, whatever they are for."""
        gathers = bool(self.weight_bytes) + bool(self.gradient_bytes)
        return self.training_calls + 1 + self.vote + self.norm + self.digest + gathers * num_layers


def overhead(due: Due, layers: Sequence[Sizes], rank: int) -> dict[tuple[Kind, str], Flow]:
    """Bytes that a rank sends and receives in an iteration besides training, by kind and purpose.

    All purposes are there, those that are not due with nothing.
    """
    world_size = len(layers[0])
    return {
        ("control", "call checks"): call_checks(due.calls(len(layers)), world_size, rank),
        ("control", "fetch checks"): fetch_checks(due.fetched, rank),
        ("control", "versions"): versions(len(layers), world_size, rank),
        ("control", "vote"): scalar_all_reduces(int(due.vote), world_size, rank),
        ("control", "norm"): scalar_all_reduces(int(due.norm), world_size, rank),
        ("audit", "digest"): digests(world_size, rank).times(int(due.digest)),
        ("audit", "weights"): gathered_layers(layers, rank, due.weight_bytes),
        ("audit", "gradients"): gathered_layers(layers, rank, due.gradient_bytes),
    }
