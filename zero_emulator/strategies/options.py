"""What a strategy may be told."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from collectives.algorithms import Algorithm
from zero_emulator.chosen import choose
from zero_emulator.theory import KeepViews


@dataclass(frozen=True)
class StrategyOptions:
    """What a strategy may be told.

    prefetch: how many gathers to have in flight ahead of the layer that computes (ZeRO-3).
    keep_views: whose gathered views stay from forward to backward (ZeRO-3).
    max_norm: clip gradients to this global norm. poison: fill released buffers with NaN.
    algorithms: what each collective of training runs on.
    """

    micro_batches: int = 1
    prefetch: int = 0
    keep_views: KeepViews = "none"
    max_norm: float | None = None
    poison: bool = False
    algorithms: Mapping[str, Algorithm] = field(default_factory=lambda: choose(()).algorithms)


DEFAULTS = StrategyOptions()
