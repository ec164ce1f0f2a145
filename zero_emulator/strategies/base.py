"""What all strategies share: the hooks, and what they are made of."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from collectives.communicator import IN_PLACE, Communicator
from collectives.ledger import Kind
from collectives.work import Work
from zero_emulator.buffers import BufferPool
from zero_emulator.clipping import clip_scale, square_sum
from zero_emulator.layer_params import SHARDED_FROM, LayerParams
from zero_emulator.layout import Array
from zero_emulator.model import Linear, initial_parameters
from zero_emulator.optimizers import Optimizer

KeepViews = Literal["none", "last", "all"]


class VersionError(RuntimeError):
    """A view is made of shards of another version than the iteration's."""


@dataclass(frozen=True)
class StrategyOptions:
    """What a strategy may be told.

    prefetch: how many gathers to have in flight ahead of the layer that computes (ZeRO-3).
    keep_views: whose gathered views stay from forward to backward (ZeRO-3).
    max_norm: clip gradients to this global norm. poison: fill released buffers with NaN.
    """

    micro_batches: int = 1
    prefetch: int = 0
    keep_views: KeepViews = "none"
    max_norm: float | None = None
    poison: bool = False


class Strategy(ABC):
    """Who keeps which state, and which collective runs at which hook. The trainer knows nothing else of it.

    For each micro-batch the trainer calls ``before_forward`` and ``after_forward`` layer by layer, then
    ``before_backward`` and ``after_backward`` in reverse. Between the hooks of a layer ``view`` is its full
    weight, and backward writes to ``gradient``. ``finish_iteration`` makes the update.
    """

    name: ClassVar[str]
    stage: ClassVar[int]

    def __init__(
        self,
        comm: Communicator,
        layers: Sequence[Linear],
        seed: int,
        dtype: npt.DTypeLike,
        optimizer: Optimizer,
        options: StrategyOptions = StrategyOptions(),
    ) -> None:
        self.comm, self.optimizer, self.options = comm, optimizer, options
        self.layers = [
            LayerParams(initial, layer.layout.block_sizes(comm.world_size), comm.rank, self.stage, optimizer)
            for layer, initial in zip(layers, initial_parameters(layers, seed, dtype), strict=True)
        ]
        self.buffers = BufferPool(dtype, poison=options.poison)
        self.iteration = 0  # updates done so far: the version that every view must have
        self.versions = np.zeros((comm.world_size, len(layers)), np.int64)  # as the ranks last told
        self.works: list[Work] = []

    # The hooks.

    def before_forward(self, layer: int, micro_batch: int) -> None:
        """The full weight of ``layer`` is needed for a forward."""

    def after_forward(self, layer: int, micro_batch: int) -> None:
        """It has been used."""

    def before_backward(self, layer: int, micro_batch: int) -> None:
        """The full weight of ``layer`` is needed for a backward."""

    @abstractmethod
    def after_backward(self, layer: int, micro_batch: int, gradient: Array) -> None:
        """It has been used, and ``gradient`` holds the full gradient of this micro-batch."""

    @abstractmethod
    def finish_iteration(self) -> None:
        """Make the update, and bring to every rank what it keeps of the new version."""

    # What the trainer asks for between them.

    def view(self, layer: int) -> Array:
        """The full weight of a layer; VersionError if it is not the version of this iteration."""
        self.check_version(layer, self.versions[:, layer])
        return self.layers[layer].weight

    def gradient(self, layer: int, micro_batch: int) -> Array:
        """Where backward writes a layer's full gradient: the kept one itself, if it is to be replaced."""
        params = self.layers[layer]
        replace = micro_batch == 0 and self.stage < SHARDED_FROM["gradient"]
        return params.grad if replace else self.buffers.take(params.size)

    def gather_weight(self, layer: int) -> Array:
        """The full weight of a layer outside the iteration: for audits, and for whoever wants the model.

        VersionError like ``view``: after the last iteration no forward asks any more.
        """
        return self.view(layer)

    def advance(self) -> None:
        """End the iteration: from here on views must be of the new version, and each rank tells its own."""
        self.iteration += 1
        self.buffers.clear()
        versions = np.empty_like(self.versions)
        versions[self.comm.rank] = [params.version for params in self.layers]
        with self.labelled(None, kind="control"):
            self.comm.all_gather(IN_PLACE, versions, sizes=(len(self.layers),) * self.comm.world_size).wait()
        self.versions = versions

    # What the hooks are made of.

    def labelled(
        self, layer: int | None, *, phase: str | None = None, kind: Kind = "training"
    ) -> AbstractContextManager[None]:
        """Count what is started inside for this layer, in this phase or the one that the trainer is in."""
        label = self.comm.label
        return self.comm.labelled(label._replace(kind=kind, layer=layer, phase=phase or label.phase))

    def check_version(self, layer: int, versions: npt.NDArray[np.int64]) -> None:
        """VersionError unless all ranks' shards of the layer are of the version of this iteration."""
        if (versions != self.iteration).any():
            raise VersionError(
                f"the view of layer {layer} is made of shards of versions {', '.join(map(str, versions))} "
                f"on ranks 0, 1, ...: iteration {self.iteration + 1} needs version {self.iteration} of all"
            )

    def accumulate(self, layer: int, gradient: Array) -> None:
        """Add the gradient of a micro-batch to the full one that is kept, unless it was written there."""
        kept = self.layers[layer].grad
        if gradient is not kept:
            kept += gradient
            self.buffers.give_back(gradient)

    def wait(self) -> None:
        """Finish the collectives that were left in flight."""
        while self.works:
            self.works.pop(0).wait()

    def update(self) -> None:
        """Clip, if asked for, and update what this rank has moments for."""
        if self.options.max_norm is not None:
            scale = clip_scale(self._global_square_sum(), self.options.max_norm)
            for params in self.layers:
                params.grad *= scale
        for params in self.layers:
            params.update(self.optimizer, self.iteration + 1)

    def _global_square_sum(self) -> float:
        # Over this rank's own blocks, in plain data parallelism too, so that all strategies add alike.
        total = np.array([sum(square_sum(params.own_grad) for params in self.layers)])
        with self.labelled(None, kind="control"):
            self.comm.all_reduce(IN_PLACE, total).wait()
        return float(total[0])

    def gather_updated_weights(self) -> None:
        """Every rank's updated block to every rank: the second half of an all-reduce."""
        for layer, params in enumerate(self.layers):
            with self.labelled(layer):
                self.works.append(self.comm.all_gather(IN_PLACE, params.weight, sizes=params.sizes))
        self.wait()
