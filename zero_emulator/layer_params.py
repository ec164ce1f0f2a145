"""One layer's parameters on one rank: what it keeps between iterations, whole or as its own block."""

from collections.abc import Sequence
from functools import partial

from collectives.blocks import bounds
from zero_emulator.dtypes import dtype_of
from zero_emulator.host import Host
from zero_emulator.layout import Array
from zero_emulator.meter import Meter
from zero_emulator.precision import Precision
from zero_emulator.update_parts import Part, SharedMatrix

SHARDED_FROM = {"master": 1, "moment": 1, "gradient": 2, "weight": 3}
"""The ZeRO stage from which each kind of state is kept as a shard: block r on rank r."""


class LayerParams:
    """A layer's weight, gradient, master weight and moments, flat; each a shard from its own stage on.

    ``version`` counts the updates that made the part of the weight that this rank updates. ``meter`` counts
    all of it but what ``host`` keeps, if there is one; updates that are made there have a master there.
    """

    def __init__(
        self,
        initial: Array,
        sizes: Sequence[int],
        rank: int,
        stage: int,
        precision: Precision,
        parts: Sequence[Part | SharedMatrix],
        meter: Meter | None = None,
        host: Host | None = None,
    ) -> None:
        self.meter, self.host = meter or Meter(), host
        self.sizes = tuple(sizes)
        self.size = initial.size
        self.own = bounds(sizes)[rank]
        self.stage = stage
        self.version = 0
        self.weight = self._copy("weight", initial, precision.weight)
        gradient_size = self._kept("gradient", initial).size
        self.grad = self.home("gradient").zeros("gradient", gradient_size, dtype_of(precision.gradient))
        self.wide_grad: Array | None = None  # beside the other, where the policy keeps both
        if precision.gradient_beside is not None:
            wide = dtype_of(precision.gradient_beside)
            self.wide_grad = self.home("gradient").zeros("gradient", gradient_size, wide)
        self.master: Array | None = None
        if precision.master is not None or self.is_on_host("master"):
            self.master = self._copy("master", initial, precision.updated)
        self.parts = parts
        for part in parts:
            for moment in part.state.values():
                self.home("moment").track("moment", moment)

    def is_on_host(self, kind: str) -> bool:
        return self.host is not None and kind in self.host.kinds

    def home(self, kind: str) -> Meter:
        """What counts this kind of state: the device's meter, or the host's."""
        return self.host.meter if self.host is not None and self.is_on_host(kind) else self.meter

    def _kept(self, kind: str, whole: Array) -> Array:
        return whole[self.own] if self.stage >= SHARDED_FROM[kind] else whole

    def _copy(self, kind: str, whole: Array, dtype: str) -> Array:
        kept = self._kept(kind, whole)
        copy = self.home(kind).empty(kind, kept.size, dtype_of(dtype))
        copy[...] = kept
        return copy

    @property
    def summed_grad(self) -> Array:
        """The gradient that adds up micro-batches, is reduced and makes the update."""
        return self.grad if self.wide_grad is None else self.wide_grad

    @property
    def own_grad(self) -> Array:
        """This rank's block of it."""
        return self.summed_grad if self.stage >= SHARDED_FROM["gradient"] else self.summed_grad[self.own]

    @property
    def own_weight(self) -> Array:
        """This rank's block of the weight."""
        return self.weight if self.stage >= SHARDED_FROM["weight"] else self.weight[self.own]

    @property
    def updating_grad(self) -> Array:
        """What of the gradient this rank updates by: all of it, or its own block."""
        return self.own_grad if self.stage >= SHARDED_FROM["moment"] else self.summed_grad

    @property
    def updating_weight(self) -> Array:
        """What of the weight this rank updates."""
        return self.own_weight if self.stage >= SHARDED_FROM["moment"] else self.weight

    def narrow_grad(self) -> None:
        """Bring the narrower of two gradients up to date."""
        if self.wide_grad is not None:
            self.grad[...] = self.wide_grad

    def update(self, iteration: int, scale: float, gradient: Array | None = None) -> None:
        """One update of what this rank has moments for: all of the layer, or its own block.

        Gradients are multiplied by ``scale`` on the way; ``gradient`` is a copy of them where the moments
        are, if they are elsewhere. Where there is a master weight, that is updated, and the weight is cast
        from it, unless the master is on the host: then it is left to be copied.
        """
        weight, gradient = self.updating_weight, self.updating_grad if gradient is None else gradient
        updated = weight if self.master is None else self.master
        empty = partial(self.home("moment").empty, "scratch")
        for part in self.parts:
            part.update(updated, gradient, iteration, scale, empty)
        if self.master is not None and not self.is_on_host("master"):
            weight[...] = self.master
        self.version += 1

    def arrays(self) -> dict[str, list[Array]]:
        """Every array that is kept between iterations, by kind; ``host moment`` is on the host."""
        kept = {
            "weight": [self.weight],
            "gradient": [self.grad, *([] if self.wide_grad is None else [self.wide_grad])],
            **({} if self.master is None else {"master": [self.master]}),
            "moment": [moment for part in self.parts for moment in part.state.values()],
        }
        return {f"host {kind}" if self.is_on_host(kind) else kind: arrays for kind, arrays in kept.items()}
