"""Traffic of an iteration for equal blocks: a rank sends f(N) of what takes part in each pass of a ring.

f(N) = (N - 1) / N for one ring reduce-scatter or all-gather. Which of them a strategy makes, in which dtypes,
is not said again here: ``theory/claimed.py`` gives the uses, for runs and for ledgers alike.

Source: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC
2009.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import gcd

from zero_emulator.parallel_degrees import ParallelDegrees
from zero_emulator.stages import Stage
from zero_emulator.theory import PASSES, Use

TAKING_PART = ((slice(None), "Ψ"), (slice(None, -1), "(Ψ - last)"))
"""The layers that take part in a use, and what a formula calls their parameters."""


def share_sent(copies: int) -> Fraction:
    """f(N): the share of a buffer that a rank sends in one ring pass; nothing on one rank."""
    return Fraction(copies - 1, copies)


def sent_bytes(uses: Sequence[Use], stage: Stage, degrees: ParallelDegrees) -> Fraction:
    """Bytes that a rank of this stage sends in an iteration.

    An expert's gradients and weights travel among the copies of that expert only. ValueError if a use is of
    some layers, and the stage does not know which parameters those have.
    """
    sent = Fraction(0)
    for use in uses:
        for group, count in stage.groups_in(use.layers).items():
            sent += share_sent(degrees.copies(group.expert)) * count * use.passes * use.itemsize
    return sent


def sent_formula(uses: Sequence[Use]) -> str:
    """Bytes that are sent in an iteration as a formula, Ψ being parameters and last those of the last layer.

    >>> sent_formula([Use("forward", "all_gather", 3, 2), Use("backward", "reduce_scatter", 3, 4)])
    '3·f (2 + 4) Ψ'
    """
    parts = []
    for layers, parameters in TAKING_PART:
        taking_part = [use for use in uses if use.layers == layers]
        if taking_part:
            parts.append(f"{_bytes_a_parameter(taking_part)} {parameters}")
    return " + ".join(parts)


def _bytes_a_parameter(uses: Sequence[Use]) -> str:
    """``3·f (2·2 + 4)``: a number for each kind of pass, and before f what they have in common."""
    passes: Counter[tuple[str, int]] = Counter()
    for use in uses:
        for kind in PASSES[use.collective]:
            passes[kind, use.itemsize] += use.times
    common = gcd(*passes.values())
    terms = [f"{_times(times // common)}{itemsize}" for (_, itemsize), times in passes.items()]
    return f"{_times(common)}f " + (f"({' + '.join(terms)})" if len(terms) > 1 else terms[0])


def _times(number: int) -> str:
    return "" if number == 1 else f"{number}·"
