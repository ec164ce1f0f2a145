"""What each optimizer's update needs: moments, whole matrices or not, and scratch to work in."""

from typing import NamedTuple


class Moments(NamedTuple):
    """How many moments an optimizer keeps of a parameter in a matrix, and of any other."""

    matrix: int
    rest: int


class Updates(NamedTuple):
    """An optimizer as the closed forms know it."""

    moments: Moments
    pieces: int
    """Pieces of scratch, where it updates element by element: see ``scratch.py``."""
    whole_matrices: bool = False
    """Whether a matrix is updated as a whole: ranks that share one gather its update."""


UPDATES = {
    "sgd": Updates(Moments(0, 0), pieces=1),
    "sgd-momentum": Updates(Moments(1, 1), pieces=1),
    "adam": Updates(Moments(2, 2), pieces=2),
    "adamw": Updates(Moments(2, 2), pieces=2),
    "muon": Updates(Moments(1, 2), pieces=2, whole_matrices=True),
}
"""The table of optimizers in closed form; Muon leaves to AdamW what is no matrix."""


def find_updates(optimizer: str, momentum: float | None) -> Updates:
    """The record of an optimizer; where momentum costs a moment of its own, the one with momentum."""
    with_momentum = f"{optimizer}-momentum"
    return UPDATES[with_momentum if momentum and with_momentum in UPDATES else optimizer]
