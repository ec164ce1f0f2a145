"""ZeRO-2 and 3 with gradients on the host: each layer's passes through one of two slots to get there."""

from collections.abc import Iterator

from zero_emulator.share import Share
from zero_emulator.strategies.run_gradients import Run, RunGradients, layer_runs
from zero_emulator.strategies.zero2 import Zero2
from zero_emulator.strategies.zero3 import GatheredViews, Zero3


class OffloadedZero2(RunGradients):
    """Reduce-scatter each layer's gradient of each micro-batch in a slot; its block goes to the host.

    It sends what ZeRO-2 sends, and holds two layers' gradients on the device, and no shard.
    """

    name = Zero2.name
    stage = Zero2.stage

    @staticmethod
    def plan_runs(share: Share) -> Iterator[Run]:
        return layer_runs(share)


class OffloadedZero3(GatheredViews, OffloadedZero2):
    """The same with weights that are gathered when their turn comes."""

    name = Zero3.name
    stage = Zero3.stage
