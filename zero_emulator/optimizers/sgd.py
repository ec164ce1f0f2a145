"""Stochastic gradient descent."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zero_emulator.layout import Array, Empty
from zero_emulator.optimizers.base import Elementwise, scratch_like
from zero_emulator.pieces import pieces


@dataclass(frozen=True)
class SGD(Elementwise):
    """Stochastic gradient descent, with momentum if asked for. Source: torch.optim.SGD."""

    lr: float = 0.1
    momentum: float = 0.0

    def new_state(self, size: int, dtype: npt.DTypeLike) -> dict[str, Array]:
        """One moment; none without momentum."""
        return {"momentum": np.zeros(size, dtype)} if self.momentum else {}

    def update(
        self,
        params: Array,
        grads: Array,
        state: dict[str, Array],
        iteration: int,
        scale: float = 1.0,
        empty: Empty = np.empty,
    ) -> None:
        """buf = momentum · buf + g, then p -= lr · buf; without momentum p -= lr · g."""
        scratch = scratch_like(params, empty)
        if not self.momentum:
            self._descend(params, grads, scale, scratch)
            return
        for g, buf in pieces(grads, state["momentum"]):
            buf *= self.momentum
            buf += np.multiply(g, scale, out=scratch[: g.size], dtype=scratch.dtype)
        self._descend(params, state["momentum"], 1.0, scratch)

    def _descend(self, params: Array, direction: Array, scale: float, scratch: Array) -> None:
        for p, d in pieces(params, direction):
            t = np.multiply(d, scale, out=scratch[: p.size], dtype=p.dtype)
            t *= self.lr
            p -= t
