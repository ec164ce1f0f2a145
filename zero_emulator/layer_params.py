"""One layer's parameters on one rank: what it keeps between iterations, whole or as its own block."""

from collections.abc import Sequence

import numpy as np

from collectives.blocks import bounds
from zero_emulator.layout import Array
from zero_emulator.optimizers import Optimizer

SHARDED_FROM = {"moment": 1, "gradient": 2, "weight": 3}
"""The ZeRO stage from which each kind of state is kept as a shard: block r on rank r."""


class LayerParams:
    """A layer's weight, gradient and moments, flat; each is a shard when the stage is at least its own.

    ``version`` counts the updates that made the part of the weight that this rank updates.
    """

    def __init__(
        self, initial: Array, sizes: Sequence[int], rank: int, stage: int, optimizer: Optimizer
    ) -> None:
        self.sizes = tuple(sizes)
        self.size = initial.size
        self.own = bounds(sizes)[rank]
        self.stage = stage
        self.version = 0
        self.weight = self._kept("weight", initial).copy()
        self.grad = np.zeros_like(self._kept("gradient", initial))
        self.moments = optimizer.new_state(self._kept("moment", initial).size, initial.dtype)

    def _kept(self, kind: str, whole: Array) -> Array:
        return whole[self.own] if self.stage >= SHARDED_FROM[kind] else whole

    @property
    def own_weight(self) -> Array:
        """This rank's block of the weight."""
        return self.weight if self.stage >= SHARDED_FROM["weight"] else self.weight[self.own]

    @property
    def own_grad(self) -> Array:
        """This rank's block of the gradient."""
        return self.grad if self.stage >= SHARDED_FROM["gradient"] else self.grad[self.own]

    def update(self, optimizer: Optimizer, iteration: int) -> None:
        """One optimizer update of what this rank has moments for: all of the layer, or its own block."""
        if self.stage >= SHARDED_FROM["moment"]:
            optimizer.update(self.own_weight, self.own_grad, self.moments, iteration)
        else:
            optimizer.update(self.weight, self.grad, self.moments, iteration)
        self.version = iteration

    def arrays(self) -> dict[str, list[Array]]:
        """Every array that is kept between iterations, by kind."""
        return {"weight": [self.weight], "gradient": [self.grad], "moment": list(self.moments.values())}
