"""Scratch: what an optimizer works in, and gives back before it goes on.

Element by element an update walks in pieces, so scratch does not grow with the model. Muon's does: it works
in a whole matrix of R x C, whatever part of it is the rank's, in another such, and in two squares of its
shorter side. Source: the iteration of Newton and Schulz as in K. Jordan, Muon, 2024.
"""

from zero_emulator.pieces import PIECE


def elementwise_scratch(pieces: int, size: int) -> list[int]:
    """Elements in use while ``size`` of them are updated in so many pieces at once."""
    return [pieces * min(PIECE, size)]


def muon_scratch(shape: tuple[int, ...], own: int) -> list[int]:
    """Elements in use while a matrix is updated of which ``own`` elements are the rank's: at first, then.

    First a piece, and the matrix that takes in what is corrected; then that, and what makes it orthogonal.
    """
    if not own:
        return []
    whole = shape[0] * shape[1]
    return [whole + min(PIECE, own), 2 * whole + 2 * min(shape) ** 2]
