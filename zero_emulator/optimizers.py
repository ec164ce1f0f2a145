"""Optimizers that update a flat shard in place.

All of them work element by element: cut the buffer where you like, the bits stay the same. That is why the
optimizer state can be sharded at all. They count nothing: the iteration comes from outside, from one place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from math import sqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt

from zero_emulator.layout import Array
from zero_emulator.pieces import PIECE, pieces


class Optimizer(Protocol):
    """What a training loop asks of an optimizer."""

    def new_state(self, size: int, dtype: npt.DTypeLike) -> dict[str, Array]:
        """The moments of a shard of ``size`` elements by name, all zero."""

    def update(
        self, params: Array, grads: Array, state: dict[str, Array], iteration: int, scale: float = 1.0
    ) -> None:
        """Update ``params`` and ``state`` in place with ``scale`` · ``grads``; ``grads`` are only read.

        All are flat and of one size, else ValueError. ``iteration`` counts from 1. ``scale`` clips, or takes
        a loss scale out, on the way. Arithmetic is done in the dtype of ``params``, from gradients of any
        narrower one, too; the temporaries are two pieces, however long the shard.
        """


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, with momentum if asked for. Source: torch.optim.SGD."""

    lr: float
    momentum: float = 0.0

    def new_state(self, size: int, dtype: npt.DTypeLike) -> dict[str, Array]:
        """One moment; none without momentum."""
        return {"momentum": np.zeros(size, dtype)} if self.momentum else {}

    def update(
        self, params: Array, grads: Array, state: dict[str, Array], iteration: int, scale: float = 1.0
    ) -> None:
        """buf = momentum · buf + g, then p -= lr · buf; without momentum p -= lr · g."""
        if not self.momentum:
            self._descend(params, grads, scale)
            return
        scratch = _scratch(params)
        for g, buf in pieces(grads, state["momentum"]):
            buf *= self.momentum
            buf += np.multiply(g, scale, out=scratch[: g.size], dtype=scratch.dtype)
        self._descend(params, state["momentum"], scale=1.0)

    def _descend(self, params: Array, direction: Array, scale: float) -> None:
        scratch = _scratch(params)
        for p, d in pieces(params, direction):
            t = np.multiply(d, scale, out=scratch[: p.size], dtype=p.dtype)
            t *= self.lr
            p -= t


@dataclass(frozen=True)
class Adam:
    """Adam, with eps added after the bias correction. Source: Kingma and Ba, 2015, as in torch.optim.Adam."""

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def new_state(self, size: int, dtype: npt.DTypeLike) -> dict[str, Array]:
        """The first and the second moment."""
        return {"first": np.zeros(size, dtype), "second": np.zeros(size, dtype)}

    def update(
        self, params: Array, grads: Array, state: dict[str, Array], iteration: int, scale: float = 1.0
    ) -> None:
        """m += (1 - b1)(g - m); v = b2 v + (1 - b2) g²; p -= lr/bc1 · m / (sqrt(v)/sqrt(bc2) + eps).

        bc = 1 - b^iteration makes up for moments that started at zero.
        """
        if iteration < 1:
            raise ValueError(f"iteration {iteration} has no bias correction: count iterations from 1")
        b1, b2 = self.betas
        bc1, bc2 = 1 - b1**iteration, 1 - b2**iteration
        scratch, second_scratch = _scratch(params), _scratch(params)
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
        self, params: Array, grads: Array, state: dict[str, Array], iteration: int, scale: float = 1.0
    ) -> None:
        """p *= 1 - lr · weight_decay, then Adam."""
        params *= 1 - self.lr * self.weight_decay
        super().update(params, grads, state, iteration, scale)


OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def make_optimizer(
    name: str, lr: float, *, momentum: float | None = None, weight_decay: float | None = None
) -> Optimizer:
    """The optimizer of this name; an option that is None keeps the optimizer's own default.

    ValueError for an unknown name, or an option that this optimizer does not have.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {name!r}: take one of {', '.join(OPTIMIZERS)}")
    kind = OPTIMIZERS[name]
    given = {"momentum": momentum, "weight_decay": weight_decay}
    options = {option: value for option, value in given.items() if value is not None}
    known = signature(kind).parameters
    for option, value in options.items():
        if option not in known:
            raise ValueError(f"{name} has no {option}, given as {value}: it takes {', '.join(known)}")
    return kind(lr, **options)


def _scratch(params: Array) -> Array:
    return np.empty(min(PIECE, params.size), params.dtype)
