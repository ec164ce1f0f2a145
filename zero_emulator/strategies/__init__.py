"""The table of strategies: a newcomer adds a file of hooks, one line here, and its record in theory."""

from collections.abc import Collection

from zero_emulator.strategies.base import Strategy
from zero_emulator.strategies.ddp import DDP
from zero_emulator.strategies.offloaded import OffloadedZero2, OffloadedZero3
from zero_emulator.strategies.options import StrategyOptions
from zero_emulator.strategies.pipeline_zero2 import PipelineZero2
from zero_emulator.strategies.versions import VersionError
from zero_emulator.strategies.zero1 import Zero1
from zero_emulator.strategies.zero2 import Zero2
from zero_emulator.strategies.zero3 import Zero3
from zero_emulator.theory import KeepViews

__all__ = [
    "OFFLOADED",
    "STRATEGIES",
    "KeepViews",
    "Strategy",
    "StrategyOptions",
    "VersionError",
    "strategy_for",
]

STRATEGIES: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (DDP, Zero1, Zero2, Zero3, PipelineZero2)
}

OFFLOADED: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (OffloadedZero2, OffloadedZero3, PipelineZero2)
}
"""Those that can keep gradients on the host."""


def strategy_for(name: str, offload: Collection[str] = ()) -> type[Strategy]:
    """The hooks of that strategy, with this offloaded to the host."""
    return OFFLOADED[name] if "gradients" in offload else STRATEGIES[name]
