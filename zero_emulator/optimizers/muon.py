"""Muon: momentum made orthogonal, a matrix at a time; AdamW for all that is no matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from zero_emulator.clipping import square_sum
from zero_emulator.layout import Array, Empty, FlatLayout
from zero_emulator.optimizers.adam import AdamW
from zero_emulator.optimizers.base import RuleAt, scratch_like
from zero_emulator.pieces import pieces

NEWTON_SCHULZ = (3.4445, -4.775, 2.0315)
"""a, b, c of x -> a x + b x³ + c x⁵, which drives every singular value from 0 to 1 near to 1: to between 0.68
and 1.13, not to 1 itself, but in five steps."""


@dataclass(frozen=True)
class Muon:
    """One moment for a matrix, AdamW's two for biases and the like; one rate and one decay for both.

    Sources: K. Jordan, Muon: An optimizer for hidden layers in neural networks, 2024; for the size of an
    update, which lets both share a rate, J. Liu et al., Muon is Scalable for LLM Training, 2025.
    """

    lr: float = 0.01
    momentum: float = 0.95
    weight_decay: float = 0.01

    def rules(self, layout: FlatLayout) -> Sequence[RuleAt]:
        """A rule for each matrix; what lies between them, padding included, is AdamW's."""
        rest = AdamW(self.lr, weight_decay=self.weight_decay)
        found = []
        end = 0
        for (_, shape), place in zip(layout.shapes, layout.places.values(), strict=True):
            if len(shape) != 2:
                continue
            if place.start > end:
                found.append(RuleAt(slice(end, place.start), rest))
            found.append(RuleAt(place, MuonMatrix(shape, self.lr, self.momentum, self.weight_decay)))
            end = place.stop
        if layout.size > end:
            found.append(RuleAt(slice(end, layout.size), rest))
        return tuple(found)


@dataclass(frozen=True)
class MuonMatrix:
    """Updates one matrix, in two halves: ``correct`` works element by element, ``apply`` needs the whole.

    So ranks that share a matrix correct their parts, gather them, and each applies the same whole to its own.
    """

    shape: tuple[int, ...]
    lr: float
    momentum: float
    weight_decay: float

    def new_state(self, size: int, dtype: npt.DTypeLike) -> dict[str, Array]:
        """The momentum of a part of ``size`` elements."""
        return {"momentum": np.zeros(size, dtype)}

    def update(
        self,
        params: Array,
        grads: Array,
        state: dict[str, Array],
        iteration: int,
        scale: float = 1.0,
        empty: Empty = np.empty,
    ) -> None:
        """Both halves, for one who has the whole matrix."""
        corrected = empty(params.size, params.dtype)
        self.correct(grads, state, scale, empty, out=corrected)
        self.apply(params, corrected, slice(0, params.size), empty)

    def correct(
        self, grads: Array, state: dict[str, Array], scale: float, empty: Empty = np.empty, *, out: Array
    ) -> None:
        """buf += (1 - momentum)(g - buf); out = g + momentum (buf - g), Nesterov's look ahead.

        All are flat, of one size, and the same part of the matrix.
        """
        scratch = scratch_like(out, empty)
        for g, buf, corrected in pieces(grads, state["momentum"], out):
            t = scratch[: g.size]
            np.multiply(g, scale, out=corrected, dtype=corrected.dtype)
            np.subtract(corrected, buf, out=t)
            t *= 1 - self.momentum
            buf += t
            np.subtract(buf, corrected, out=t)
            t *= self.momentum
            corrected += t

    def apply(self, params: Array, corrected: Array, own: slice, empty: Empty = np.empty) -> None:
        """p *= 1 - lr · weight_decay; p -= lr · 0.2 sqrt(longer side) · orthogonal(corrected)[own].

        ``params`` is the part ``own`` of the matrix, ``corrected`` the whole, flat; it is used up. The factor
        gives an update the root mean square that AdamW's has.
        """
        orthogonalize(corrected.reshape(self.shape), empty=empty)
        params *= 1 - self.lr * self.weight_decay
        rate = self.lr * 0.2 * sqrt(max(self.shape))
        for p, d in pieces(params, corrected[own]):
            d *= rate
            p -= d


def orthogonalize(matrix: Array, num_steps: int = 5, empty: Empty = np.empty) -> None:
    """Leave the singular vectors as they are and bring all singular values near 1, as Newton and Schulz do.

    In place, and in the dtype of ``matrix``; a matrix of zeros stays one. Works in another such matrix and
    two squares of the shorter side, made by ``empty``.
    """
    matrix /= max(sqrt(square_sum(matrix.reshape(-1))), 1e-7)
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    a, b, c = NEWTON_SCHULZ
    gram, square = (empty((len(x), len(x)), x.dtype) for _ in range(2))
    term = empty(x.shape, x.dtype)
    for _ in range(num_steps):
        np.matmul(x, x.T, out=gram)
        np.matmul(gram, gram, out=square)
        square *= c
        gram *= b
        gram += square
        np.matmul(gram, x, out=term)
        x *= a
        x += term
