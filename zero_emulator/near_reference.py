"""What a rank adds to its loss: the KL divergence of its outputs from those of a frozen model."""

from functools import partial
from typing import NamedTuple

from zero_emulator.frozen_model import FrozenModel, ResidentWeights, StreamedWeights, Weights
from zero_emulator.frozen_reference import FrozenReference
from zero_emulator.layout import Array
from zero_emulator.losses import kl_to_reference
from zero_emulator.meter import Meter
from zero_emulator.offload import Copier, Link, Slots, Transfers
from zero_emulator.weight_files import Model


class Crossed(NamedTuple):
    """What has come over a link to the device, and how long the rank would have waited for it."""

    num_bytes: int
    modelled_stall: float | None
    """Seconds; None where no bandwidth is given."""


class NearReference:
    """A loss to be added, with the frozen model behind it; ``close`` ends its copy thread.

    Weights on the host come through two slots of the device, the next layer's while one computes. They have
    a link and a copy thread of their own: so they wait behind none of the run's own state, and are counted
    beside it, against a closed form of their own.
    """

    def __init__(
        self,
        reference: FrozenReference,
        model: Model,
        device: Meter,
        host: Meter,
        *,
        bandwidth: float | None = None,
        time_limit: float,
    ) -> None:
        self._coefficient = reference.kl
        self._empty = partial(device.empty, "activation")
        self._link, self._copier = Link(bandwidth), Copier(time_limit)
        self._crossed = 0
        weights: Weights
        if reference.on == "device":
            weights = ResidentWeights(model.weights, device)
        else:
            slots = Slots(partial(device.empty, "reference"))
            weights = StreamedWeights(model.weights, host, Transfers(self._link, self._copier), slots)
        self._model = FrozenModel(model.layers, weights, self._empty)

    def __call__(self, x: Array, outputs: Array, global_count: int) -> tuple[float, Array]:
        """The share of the divergence that these outputs for the rows ``x`` make, and its gradient by them.

        For no rows there is nothing to compute: no weight is asked for, and none comes over the link.
        """
        if not len(x):
            return 0.0, self._empty(outputs.shape, outputs.dtype)
        log_probabilities = self._model.log_probabilities(x)
        return kl_to_reference(outputs, log_probabilities, global_count, self._coefficient, self._empty)

    def drain(self) -> Crossed:
        """What has crossed the link since this was called last."""
        before, self._crossed = self._crossed, self._link.to_device_bytes
        copies, self._link.log = self._link.log, []
        stall = None if self._link.bandwidth is None else sum(copy.modelled_stall or 0.0 for copy in copies)
        return Crossed(self._crossed - before, stall)

    def close(self) -> None:
        """End the copy thread."""
        self._copier.close()
