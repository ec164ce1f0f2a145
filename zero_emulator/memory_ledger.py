"""What each strategy keeps and sends for a model that is described, not run."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from zero_emulator.held_bytes import Bytes, Training, kept_bytes, passing_bytes
from zero_emulator.nominal import sent_bytes, sent_formula
from zero_emulator.parallel_degrees import ParallelDegrees
from zero_emulator.stages import Stage
from zero_emulator.theory import PLAIN


@dataclass(frozen=True)
class RankBytes:
    """One strategy on a rank of one pipeline stage: bytes by kind, exact for equal blocks."""

    pipeline_stage: int
    """The stage's number, counted from 0."""
    num_params: Fraction
    """Those that the rank computes with: Ψ of its own formulas."""
    kept: Bytes
    passing: Bytes | None
    """What comes on top at the worst moment, activations apart; None where shapes are not known."""
    sent: Fraction

    @property
    def persistent(self) -> Fraction:
        return sum(self.kept.values(), Fraction(0))

    @property
    def with_a_layer(self) -> Fraction | None:
        """What is kept and passing: a run's peak, but for activations, rings and optimizer scratch."""
        return None if self.passing is None else self.persistent + sum(self.passing.values())


@dataclass(frozen=True)
class Row:
    """One strategy: the rank that keeps most, and the one that holds most with a layer in use."""

    strategy: str
    fullest: RankBytes
    highest: RankBytes
    """The fullest once more where shapes are not known, and so not what a layer adds."""
    sent_formula: str


def ledger_rows(stages: Sequence[Stage], degrees: ParallelDegrees, training: Training) -> tuple[Row, ...]:
    """What each strategy keeps, holds and sends on the fullest of the pipeline stages' ranks, in table order.

    ValueError if views of the last layer are kept, and the stages do not know their layers.
    """
    return tuple(_row(strategy, stages, degrees, training) for strategy in PLAIN)


def _row(strategy: str, stages: Sequence[Stage], degrees: ParallelDegrees, training: Training) -> Row:
    uses = training.uses(strategy)
    ranks = [
        RankBytes(
            number,
            stage.num_params,
            kept_bytes(strategy, stage, degrees, training),
            passing_bytes(strategy, stage, training) if stage.layers else None,
            sent_bytes(uses, stage, degrees),
        )
        for number, stage in enumerate(stages)
    ]
    fullest = max(ranks, key=lambda rank: rank.persistent)
    highest = max(ranks, key=lambda rank: rank.with_a_layer or rank.persistent)
    return Row(strategy, fullest, highest, sent_formula(uses))
