"""How many ranks it takes until a strategy fits into a memory."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

from zero_emulator.held_bytes import Training, passing_bytes
from zero_emulator.parallel_degrees import ParallelDegrees
from zero_emulator.stages import Stage
from zero_emulator.theory import is_sharded


def fewest_ranks(
    strategy: str,
    stages: Sequence[Stage],
    degrees: ParallelDegrees,
    training: Training,
    memory: int,
    *,
    with_a_layer: bool,
) -> int | None:
    """The smallest world on which every pipeline stage fits into ``memory`` bytes; None if none is enough.

    Tensor, pipeline and expert degrees stay; the sharding degree grows.
    """
    copies = [_fewest_copies(strategy, stage, degrees, training, memory, with_a_layer) for stage in stages]
    known = [number for number in copies if number is not None]
    return max(known) * degrees.model_ranks if len(known) == len(copies) else None


def _fewest_copies(
    strategy: str, stage: Stage, degrees: ParallelDegrees, training: Training, memory: int, with_a_layer: bool
) -> int | None:
    """The fewest copies N of dense weights on which one stage fits; None if none is enough.

    whole + sharded/N is to be at most memory: N is at least sharded/(memory - whole).

    An expert's shards are 1/(N/E), so they weigh E times as much, and E divides N.
    """
    whole, sharded = Fraction(0), Fraction(0)
    for group, count in stage.groups.items():
        for kind, size in training.kept_a_parameter(group.matrix).items():
            if is_sharded(strategy, kind):
                sharded += count * size * (degrees.expert if group.expert else 1)
            else:
                whole += count * size
    if with_a_layer:
        whole += sum(passing_bytes(strategy, stage, training).values())
    room = memory - whole
    if room < 0 or (sharded and not room):
        return None
    needed = max(1, ceil(sharded / room)) if sharded else 1
    return ceil(Fraction(needed, degrees.expert)) * degrees.expert
