"""What each strategy keeps and sends for a model that is described, not run."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from zero_emulator.held_bytes import Bytes, Training, kept_bytes, passing_bytes
from zero_emulator.nominal import Coefficient, sent_a_parameter, share_sent
from zero_emulator.parallel_degrees import ParallelDegrees
from zero_emulator.stages import Stage
from zero_emulator.theory import CLAIMED


@dataclass(frozen=True)
class RankBytes:
    """One strategy on a rank of one pipeline stage: bytes by kind, exact for equal blocks."""

    pipeline_stage: int
    """From 0."""
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
    def peak(self) -> Fraction | None:
        return None if self.passing is None else self.persistent + sum(self.passing.values())


@dataclass(frozen=True)
class Row:
    """One strategy: the rank that keeps most, the one that ever holds most, and what a parameter costs."""

    strategy: str
    fullest: RankBytes
    highest: RankBytes
    """The fullest once more where shapes, and with them peaks, are not known."""
    coefficient: Coefficient


def ledger_rows(stages: Sequence[Stage], degrees: ParallelDegrees, training: Training) -> tuple[Row, ...]:
    """A row a strategy."""
    return tuple(_row(strategy, stages, degrees, training) for strategy in CLAIMED)


def _row(strategy: str, stages: Sequence[Stage], degrees: ParallelDegrees, training: Training) -> Row:
    coefficient = sent_a_parameter(
        strategy, training.precision, training.micro_batches, keep_views=training.keep_views
    )
    ranks = [
        RankBytes(
            number,
            stage.num_params,
            kept_bytes(strategy, stage, degrees, training),
            passing_bytes(strategy, stage, training) if stage.layers else None,
            _sent(stage, degrees, coefficient),
        )
        for number, stage in enumerate(stages)
    ]
    fullest = max(ranks, key=lambda rank: rank.persistent)
    return Row(strategy, fullest, max(ranks, key=lambda rank: rank.peak or rank.persistent), coefficient)


def _sent(stage: Stage, degrees: ParallelDegrees, coefficient: Coefficient) -> Fraction:
    """An expert's gradients and weights travel among the copies of that expert only."""
    return sum(
        (
            share_sent(degrees.copies(group.expert)) * count * coefficient.size
            for group, count in stage.groups.items()
        ),
        Fraction(0),
    )
