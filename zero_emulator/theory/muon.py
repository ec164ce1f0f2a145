"""What Muon sends: it updates a matrix as a whole, so ranks that share one gather its update.

A matrix is given by its shares, the elements of it in each rank's block. In whose blocks it has no element
takes no part, and a rank that has all of it fetches nothing. Source: the definition of Muon, K. Jordan, Muon:
An optimizer for hidden layers in neural networks, 2024.
"""

from collections.abc import Sequence

from zero_emulator.theory.overhead import call_checks
from zero_emulator.theory.rings import NOTHING, Flow, Sizes, ring_all_gather


def muon_fetches(matrices: Sequence[Sizes], rank: int, itemsize: int) -> Flow:
    """Training: a ring all-gather among those who share a matrix, for each.

    Receives the matrices less the own parts, sends them less the right neighbours' parts.
    """
    flow = NOTHING
    for shares in matrices:
        if shares[rank]:
            parts, place = _among_sharers(shares, rank)
            flow += ring_all_gather(parts, place).times(itemsize)
    return flow


def num_fetches(matrices: Sequence[Sizes], rank: int) -> int:
    """How many matrices a rank shares with another."""
    return sum(0 < shares[rank] < sum(shares) for shares in matrices)


def fetch_checks(matrices: Sequence[Sizes], rank: int) -> Flow:
    """Control: the check of each fetch, among those who share the matrix."""
    flow = NOTHING
    for shares in matrices:
        if shares[rank]:
            parts, place = _among_sharers(shares, rank)
            flow += call_checks(1, len(parts), place)
    return flow


def _among_sharers(shares: Sizes, rank: int) -> tuple[Sizes, int]:
    """The shares that are not empty, and which of them is this rank's."""
    return tuple(filter(None, shares)), sum(share > 0 for share in shares[:rank])
