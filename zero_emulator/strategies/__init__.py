"""The table of strategies: a newcomer adds a file of hooks, one line here, and its record in theory."""

from zero_emulator.strategies.base import Strategy
from zero_emulator.strategies.ddp import DDP
from zero_emulator.strategies.options import StrategyOptions
from zero_emulator.strategies.pipeline_zero2 import PipelineZero2
from zero_emulator.strategies.versions import VersionError
from zero_emulator.strategies.zero1 import Zero1
from zero_emulator.strategies.zero2 import Zero2
from zero_emulator.strategies.zero3 import Zero3
from zero_emulator.theory import KeepViews

__all__ = ["STRATEGIES", "KeepViews", "Strategy", "StrategyOptions", "VersionError"]

STRATEGIES: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (DDP, Zero1, Zero2, Zero3, PipelineZero2)
}
