"""What all strategies share: the hooks, and what they are made of."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from collectives.communicator import IN_PLACE, Communicator
from collectives.ledger import Kind
from collectives.work import Work
from zero_emulator.axes import Axes, make_axes
from zero_emulator.buffers import Buffers
from zero_emulator.clipping import clip_scale
from zero_emulator.dtypes import dtype_of
from zero_emulator.host import Host
from zero_emulator.layer_params import SHARDED_FROM, LayerParams
from zero_emulator.layout import Array
from zero_emulator.loss_scale import LossScale
from zero_emulator.meter import Meter
from zero_emulator.model import initial_parameters
from zero_emulator.offload import Slots
from zero_emulator.optimizers import Optimizer
from zero_emulator.partition import Partition
from zero_emulator.precision import Precision
from zero_emulator.strategies.agreement import all_finite, global_square_sum
from zero_emulator.strategies.host_update import WeightsBack, gradients_for
from zero_emulator.strategies.options import DEFAULTS, StrategyOptions
from zero_emulator.strategies.own_layers import make_groups, make_layers
from zero_emulator.strategies.versions import Versions, check_versions


class Strategy(ABC):
    """Who keeps which state, and which collective runs at which hook. The trainer knows nothing else of it.

    For each micro-batch the trainer calls ``before_forward`` and ``after_forward`` layer by layer, then
    ``before_backward`` and ``after_backward`` in reverse. Between the hooks of a layer ``view`` is its full
    weight, and backward writes to ``gradient``. ``finish_iteration`` makes the update. What a hook drops is
    freed at once, if the trainer holds no view of it: so it keeps none.
    """

    name: ClassVar[str]
    stage: ClassVar[int]
    gathers_views: ClassVar[bool] = False  # and so has a use for prefetch and keep_views

    def __init__(
        self,
        comm: Communicator,
        partition: Partition,
        seed: int,
        precision: Precision,
        optimizer: Optimizer,
        options: StrategyOptions = DEFAULTS,
        meter: Meter | None = None,
        axes: Axes | None = None,
        host: Host | None = None,
    ) -> None:
        self.meter, self.host = meter or Meter(), host
        self.meters = (self.meter,) if host is None else (self.meter, host.meter)
        self.comm, self.precision, self.options = comm, precision, options
        self.share = partition.share(comm.rank)
        initial = initial_parameters(partition.layers, seed, dtype_of(precision.compute))
        self.groups = make_groups(self.share, axes or make_axes(comm, partition.grid))
        self.layers = make_layers(
            self.share, self.groups, initial, self.stage, precision, optimizer, self.meter, host
        )
        self.buffers = Buffers(self.meter, poison=options.poison)
        self.opened: Array | None = None  # the view of the layer between its hooks
        self.written: Array | None = None  # the gradient that backward writes, until a hook takes it
        self.skipped: list[int] = []  # iterations without an update, by vote
        self.updates = 0  # done so far: the version that every view must have
        self.versions = Versions([group.sharers for group in self.groups])
        self.works: list[Work] = []
        self.slots = Slots(partial(self.meter.empty, "accumulator"))  # what gradients pass through
        self.loss_scale = LossScale() if precision.scales_loss else None

    # The hooks.

    def before_forward(self, layer: int, micro_batch: int) -> None:
        """The full weight of ``layer`` is needed for a forward."""
        self.open(layer)

    def after_forward(self, layer: int, micro_batch: int) -> None:
        """It has been used."""
        self.close(layer)

    def before_backward(self, layer: int, micro_batch: int) -> None:
        """The full weight of ``layer`` is needed for a backward."""
        self.open(layer)

    @abstractmethod
    def after_backward(self, layer: int, micro_batch: int) -> None:
        """It has been used, and the full gradient of this micro-batch is written."""

    def settle(self) -> None:
        """Finish what reduces gradients in flight, and have what is kept of them complete."""

    @abstractmethod
    def finish_iteration(self, iteration: int) -> None:
        """Make the update of this iteration, and bring to every rank what it keeps of the new version."""

    # What the trainer asks for between them.

    def view(self, layer: int) -> Array:
        """The full weight of a layer, in the dtype that is computed in."""
        assert self.opened is not None, f"layer {layer} is not between its hooks"
        return self.opened

    def gradient(self, layer: int, micro_batch: int) -> Array:
        """Where backward writes a layer's full gradient."""
        self.written = self.new_gradient(self.layers[layer], replaces=micro_batch == 0)
        return self.written

    def gather_weight(self, layer: int) -> Array:
        """The full weight of a layer outside the iteration: for audits, and for whoever wants the model.

        In the dtype that is computed in; VersionError if a rank has missed the last update.
        """
        return self.full_weight(layer).astype(dtype_of(self.precision.compute))

    def gather_gradient(self, layer: int) -> Array:
        """The full reduced gradient of a layer, after its update: for audits."""
        params = self.layers[layer]
        full = np.empty(params.size, params.summed_grad.dtype)
        self.groups[layer].sharers.all_gather(params.own_grad, full, sizes=params.sizes).wait()
        return full

    def advance(self) -> None:
        """End the iteration: from here on views must be of the new version, and each rank tells its own."""
        with self.labelled(None, kind="control"):
            self.versions.exchange([params.version for params in self.layers])

    # What the hooks are made of.

    def full_weight(self, layer: int) -> Array:
        """The full weight of a layer as kept or gathered; VersionError if it is not the right version."""
        self.check_version(layer, self.versions.of(layer))
        return self.layers[layer].weight

    def open(self, layer: int) -> None:
        """Make the view: the full weight, or a copy of it in the dtype that is computed in."""
        self.opened = full = self.full_weight(layer)
        if full.dtype != dtype_of(self.precision.compute):
            self.opened = self.buffers.take("compute copy", full.size, self.precision.compute)
            self.opened[...] = full

    def close(self, layer: int) -> None:
        """Drop the copy, if there is one."""
        if self.opened is not None and self.opened is not self.full_weight(layer):
            self.buffers.give_back(self.opened)
        self.opened = None

    def labelled(
        self, layer: int | None, *, phase: str | None = None, kind: Kind = "training"
    ) -> AbstractContextManager[None]:
        """Count what is started inside for this layer, in this phase or the one that the trainer is in."""
        label, number = self.comm.label, None if layer is None else self.groups[layer].number
        return self.comm.labelled(label._replace(kind=kind, layer=number, phase=phase or label.phase))

    def how(self, collective: str, layer: int) -> dict[str, Any]:
        """How training calls a collective on this layer: over its blocks, by the algorithm asked for."""
        return {"sizes": self.layers[layer].sizes, "algorithm": self.options.algorithms[collective]}

    def check_version(self, layer: int, versions: npt.NDArray[np.int64]) -> None:
        """VersionError unless all ranks' shards of the layer are of the version of this iteration."""
        check_versions(layer, versions, self.updates)

    def new_gradient(self, params: LayerParams, *, replaces: bool) -> Array:
        """Memory for a layer's full gradient: the kept one itself, if that is to be replaced."""
        kept_whole = self.stage < SHARDED_FROM["gradient"]
        if replaces and kept_whole and params.summed_grad.dtype == dtype_of(self.precision.compute):
            return params.summed_grad
        return self.buffers.take("buffer", params.size, self.precision.compute)

    def take_gradient(self) -> Array:
        """What backward has written, to be freed by the caller."""
        assert self.written is not None, "no backward has been here"
        gradient, self.written = self.written, None
        return gradient

    def recast(self, buffer: Array, dtype: str) -> Array:
        """The same numbers in a buffer of another dtype, in exchange for this one."""
        if buffer.dtype == dtype_of(dtype):
            return buffer
        cast = self.buffers.take("buffer", buffer.size, dtype)
        cast[...] = buffer
        self.buffers.give_back(buffer)
        return cast

    def wait(self) -> None:
        """Finish the collectives that were left in flight."""
        while self.works:
            self.works.pop(0).wait()

    def update(self, iteration: int) -> None:
        """Update what this rank has moments for, all ranks or none.

        Gradients are clipped if asked for. If any rank's are not finite and the policy votes on it, nobody
        updates, nobody's count of updates moves, and ``iteration`` is one of those ``skipped``.
        """
        self.reduce_over_twins()
        scale = 1.0 if self.loss_scale is None else 1 / self.loss_scale.value
        if self.precision.votes:
            with self.labelled(None, kind="control"):
                finite = all_finite(self.comm, self.layers)
            if self.loss_scale is not None:
                self.loss_scale.learn(finite)
            if not finite:
                self.skipped.append(iteration)
                return
        if self.options.max_norm is not None:
            with self.labelled(None, kind="control"):
                squares = global_square_sum(self.comm, self.counted)
            scale *= clip_scale(squares * scale**2, self.options.max_norm)
        self.updates += 1
        self.update_layers(scale)

    def update_layers(self, scale: float) -> None:
        """Update each layer where its moments are."""
        if self.host is None:
            for layer, params in enumerate(self.layers):
                with self.labelled(layer):
                    params.update(self.updates, scale)
            return
        back = WeightsBack(self.host)
        for layer, gradient in gradients_for(self.host, self.layers, self.slots):
            with self.labelled(layer):
                self.layers[layer].update(self.updates, scale, gradient)
            back.send(layer, self.layers[layer])
            del gradient  # or it would outlive its slot
        back.finish()

    @property
    def counted(self) -> list[LayerParams]:
        """The layers whose shards this rank, and none of its twins, brings into a sum over all ranks."""
        return [
            params
            for group, params in zip(self.groups, self.layers, strict=True)
            if group.twins is None or group.twins.rank == 0
        ]

    def reduce_over_twins(self) -> None:
        """Add up what each group of sharers has reduced, where there are several."""
        for layer, (_, _, twins) in enumerate(self.groups):
            if twins is not None:
                with self.labelled(layer):
                    gradient = self.layers[layer].own_grad
                    algorithm = self.options.algorithms["all_reduce"]
                    self.works.append(twins.all_reduce(IN_PLACE, gradient, algorithm=algorithm))
        self.wait()
        for (_, _, twins), params in zip(self.groups, self.layers, strict=True):
            if twins is not None:
                params.narrow_grad()

    def gather_updated_weights(self) -> None:
        """Every rank's updated block to every rank: the second half of an all-reduce."""
        gathered = []
        for layer, params in enumerate(self.layers):
            full = params.weight
            if self.precision.weight_wire != self.precision.weight:
                full = self.buffers.take("buffer", params.size, self.precision.weight_wire)
                full[params.own] = params.own_weight
            with self.labelled(layer):
                sharers = self.groups[layer].sharers
                self.works.append(sharers.all_gather(IN_PLACE, full, **self.how("all_gather", layer)))
            gathered.append(full)
        self.wait()
        for params, full in zip(self.layers, gathered, strict=True):
            if full is not params.weight:
                params.weight[...] = full
                self.buffers.give_back(full)
