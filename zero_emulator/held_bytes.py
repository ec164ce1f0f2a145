"""Bytes that a rank holds: kept between iterations, and passing through at the worst moment of a layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from zero_emulator.parallel_degrees import ParallelDegrees
from zero_emulator.precision import ITEMSIZE, Precision
from zero_emulator.stages import Stage
from zero_emulator.theory import CLAIMED, UPDATES, KeepViews, Use, is_sharded

Bytes = Mapping[str, Fraction]


@dataclass(frozen=True)
class Training:
    """How a model is trained, as far as bytes depend on it."""

    precision: Precision
    optimizer: str = "adam"
    micro_batches: int = 1
    prefetch: int = 0
    keep_views: KeepViews = "none"

    def kept_a_parameter(self, matrix: bool) -> dict[str, int]:
        """Bytes kept for a parameter, by kind, before any sharding."""
        moments = UPDATES[self.optimizer].moments
        return self.precision.bytes_a_parameter(moments.matrix if matrix else moments.rest)

    def uses(self, strategy: str) -> tuple[Use, ...]:
        """The collectives that a strategy calls in an iteration."""
        return CLAIMED[strategy].uses(self.micro_batches, self.keep_views, self.precision)


def kept_bytes(strategy: str, stage: Stage, degrees: ParallelDegrees, training: Training) -> Bytes:
    """Bytes that a rank keeps between iterations, by kind: a kind is 1/N of the whole from its stage on.

    With Adam and BF16 weights that is 16, 4 + 12/N, 2 + 14/N and 16/N a parameter.
    """
    kept: dict[str, Fraction] = {}
    for group, count in stage.groups.items():
        for kind, size in training.kept_a_parameter(group.matrix).items():
            copies = degrees.copies(group.expert) if is_sharded(strategy, kind) else 1
            kept[kind] = kept.get(kind, Fraction(0)) + count * size / copies
    return kept


def passing_bytes(strategy: str, stage: Stage, training: Training) -> Bytes:
    """Bytes that a rank holds for a moment in the backward pass of its largest layer, by the meter's kinds.

    Sharded weights: the gathered view, and those of ``prefetch`` more layers, or all if all are kept; the
    last layer's, if that alone is kept, is dropped by then or is that view itself.
    Sharded gradients: the layer's own, whole, until it is reduced. And a copy of the layer in the compute
    dtype, if weights are narrower. Not all of a run's peak: without activations, what rings work in and the
    optimizer's scratch, which the shapes of layers do not tell.
    """
    precision, largest = training.precision, stage.largest_layer
    views = stage.num_params
    if training.keep_views != "all":
        views = min(views, (1 + training.prefetch) * largest)
    passing = {}
    if is_sharded(strategy, "weight"):
        passing["view"] = views * ITEMSIZE[precision.weight_wire]
    if ITEMSIZE[precision.compute] > ITEMSIZE[precision.weight]:
        passing["compute copy"] = largest * ITEMSIZE[precision.compute]
    if is_sharded(strategy, "gradient"):
        passing["buffer"] = largest * ITEMSIZE[precision.gradient]
    return passing


def kept_formula(strategy: str, training: Training, matrix: bool) -> str:
    """Bytes kept for a parameter as a formula in N: ``4 + 12/N``."""
    whole = sharded = 0
    for kind, size in training.kept_a_parameter(matrix).items():
        if is_sharded(strategy, kind):
            sharded += size
        else:
            whole += size
    parts = [str(whole)] * bool(whole) + [f"{sharded}/N"] * bool(sharded)
    return " + ".join(parts)


def whole_bytes(parts: Bytes) -> dict[str, int]:
    """Bytes by kind in whole numbers, whose sum is the sum rounded up."""
    total, rounded = Fraction(0), {}
    for kind, size in parts.items():
        rounded[kind] = ceil(total + size) - ceil(total)
        total += size
    return rounded
