"""Adam, and with decoupled decay AdamW."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from zero_emulator.layout import Array, Empty
from zero_emulator.optimizers.base import Elementwise, scratch_like
from zero_emulator.pieces import pieces


@dataclass(frozen=True)
class Adam(Elementwise):
    """Adam, with eps added after the bias correction. Source: Kingma and Ba, 2015, as in torch.optim.Adam."""

    lr: float = 0.003
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def new_state(self, size: int, dtype: npt.DTypeLike) -> dict[str, Array]:
        """The first and the second moment."""
        return {"first": np.zeros(size, dtype), "second": np.zeros(size, dtype)}

    def update(
        self,
        params: Array,
        grads: Array,
        state: dict[str, Array],
        iteration: int,
        scale: float = 1.0,
        empty: Empty = np.empty,
    ) -> None:
        """m += (1 - b1)(g - m); v = b2 v + (1 - b2) g²; p -= lr/bc1 · m / (sqrt(v)/sqrt(bc2) + eps).

        bc = 1 - b^iteration makes up for moments that started at zero.
        """
        if iteration < 1:
            raise ValueError(f"iteration {iteration} has no bias correction: count iterations from 1")
        b1, b2 = self.betas
        bc1, bc2 = 1 - b1**iteration, 1 - b2**iteration
        scratch, second_scratch = scratch_like(params, empty), scratch_like(params, empty)
        for p, g, m, v in pieces(params, grads, state["first"], state["second"]):
            t, scaled = scratch[: p.size], second_scratch[: p.size]
            np.multiply(g, scale, out=scaled, dtype=p.dtype)

            np.subtract(scaled, m, out=t, dtype=p.dtype)
            t *= 1 - b1
            m += t

            np.square(scaled, out=t, dtype=p.dtype)
            t *= 1 - b2
            v *= b2
            v += t

            np.sqrt(v, out=t)
            t /= sqrt(bc2)
            t += self.eps
            np.divide(m, t, out=t)
            t *= self.lr / bc1
            p -= t


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decay that the moments do not see. Source: Loshchilov and Hutter, 2019, as in torch."""

    weight_decay: float = 0.01

    def update(
        self,
        params: Array,
        grads: Array,
        state: dict[str, Array],
        iteration: int,
        scale: float = 1.0,
        empty: Empty = np.empty,
    ) -> None:
        """p *= 1 - lr · weight_decay, then Adam."""
        params *= 1 - self.lr * self.weight_decay
        super().update(params, grads, state, iteration, scale, empty)
