"""Bytes that pass through a rank while it works on one layer of a micro-batch.

``sizes`` are elements of the layer's blocks, S their sum and s the rank's own; c, w, g and r are bytes of a
number that is computed in, of a weight on the wire, of a summed gradient and of one that is reduced.
"""

from zero_emulator.precision import ITEMSIZE, Precision
from zero_emulator.theory.claimed import is_sharded
from zero_emulator.theory.rings import Scratch, Sizes, ring_scratch


def compute_copy(strategy: str, precision: Precision, sizes: Sizes) -> int:
    """c S where the full weights, kept or gathered, are of another dtype than what is computed in."""
    full = precision.weight_wire if is_sharded(strategy, "weight") else precision.weight
    return 0 if full == precision.compute else ITEMSIZE[precision.compute] * sum(sizes)


def full_gradient(strategy: str, precision: Precision, sizes: Sizes, micro_batch: int) -> int:
    """c S, unless backward can write to the gradient that is kept: whole, of its dtype, and not yet begun."""
    kept_whole = not is_sharded(strategy, "gradient")
    if kept_whole and precision.summed_gradient == precision.compute and micro_batch == 0:
        return 0
    return ITEMSIZE[precision.compute] * sum(sizes)


def gradient_casts(strategy: str, precision: Precision, sizes: Sizes) -> list[int]:
    """(c + g) S, then (g + r) S: a gradient that is not kept whole is rounded as if it were, then sent."""
    if not is_sharded(strategy, "gradient"):
        return []
    casts = (
        (precision.compute, precision.summed_gradient),
        (precision.summed_gradient, precision.reduce),
    )
    return [sum(sizes) * (ITEMSIZE[old] + ITEMSIZE[new]) for old, new in casts if old != new]


def reduction(
    strategy: str,
    precision: Precision,
    sizes: Sizes,
    rank: int,
    micro_batch: int,
    micro_batches: int,
    scratch_of: Scratch = ring_scratch,
) -> int:
    """What the reduction of a layer's gradient holds until it is over, what it works in and all.

    Where gradients are sharded each micro-batch has one: r S of what is sent, and r s of what comes in, if
    that is added to the shard or is of another dtype. Where they are whole the last micro-batch has one, in
    place, or on a copy of r S for the wire.
    """
    itemsize, same = ITEMSIZE[precision.reduce], precision.reduce == precision.summed_gradient
    if is_sharded(strategy, "gradient"):
        scratch = scratch_of("reduce_scatter", sizes, rank, in_place=False)
        comes_in = 0 if same and micro_batch == 0 else sizes[rank]
        return itemsize * (sum(sizes) + scratch + comes_in)
    if micro_batch < micro_batches - 1:
        return 0
    collective = "reduce_scatter" if is_sharded(strategy, "moment") or not same else "all_reduce"
    scratch = scratch_of(collective, sizes, rank, in_place=True)
    return itemsize * (scratch + (0 if same else sum(sizes)))
