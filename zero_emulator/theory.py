"""Closed forms: the bytes that a rank sends, receives and keeps, exactly, for any cut into blocks.

They are written down from the algorithms' definitions, not computed from schedules or runs, so that the audit
holds one against the other. Layers are given by their block sizes in elements, a tuple of one a rank; s_r is
block r and S the sum. For equal blocks the sums become the well-known multiples of f(N) Ψ with
f(N) = (N - 1) / N.

Sources: S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020;
P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 2009.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from zero_emulator.layer_params import SHARDED_FROM
from zero_emulator.precision import ITEMSIZE, Precision
from zero_emulator.strategies.base import KeepViews

Sizes = tuple[int, ...]


class Flow(NamedTuple):
    """What one rank sends and receives: in elements of a block, or in bytes."""

    sent: int
    received: int


def ring_reduce_scatter(sizes: Sizes, rank: int) -> Flow:
    """Sends S - s_r: all blocks but its own. Receives S - s_(r-1)."""
    return Flow(sum(sizes) - sizes[rank], sum(sizes) - sizes[rank - 1])


def ring_all_gather(sizes: Sizes, rank: int) -> Flow:
    """Sends S - s_(r+1): all blocks but the one its right neighbour owns. Receives S - s_r."""
    return Flow(sum(sizes) - sizes[(rank + 1) % len(sizes)], sum(sizes) - sizes[rank])


def ring_all_reduce(sizes: Sizes, rank: int) -> Flow:
    """A reduce-scatter and an all-gather."""
    first, second = ring_reduce_scatter(sizes, rank), ring_all_gather(sizes, rank)
    return Flow(first.sent + second.sent, first.received + second.received)


RING: dict[str, Callable[[Sizes, int], Flow]] = {
    "all_gather": ring_all_gather,
    "reduce_scatter": ring_reduce_scatter,
    "all_reduce": ring_all_reduce,
}


@dataclass(frozen=True)
class Claim:
    """What a strategy is said to cost, for N large and one micro-batch: a multiple of Ψ, and why."""

    multiple: int
    formula: str


CLAIMS = {
    "ddp": Claim(2, "2Ψ"),
    "zero1": Claim(2, "2Ψ"),
    "zero2": Claim(2, "2Ψ"),
    "zero3": Claim(3, "3Ψ"),
}


class Use(NamedTuple):
    """A collective that every layer (or only some) takes part in, ``times`` an iteration, in one dtype."""

    phase: str
    collective: str
    times: int
    itemsize: int
    layers: slice = slice(None)


def iteration_uses(
    strategy: str, micro_batches: int, keep_views: KeepViews, precision: Precision
) -> tuple[Use, ...]:
    """The collectives of one iteration, times f(N), with M micro-batches.

    On the wire a gradient has bg bytes and a weight bw.

    ddp      2 bg Ψ           an all-reduce, whatever M; reduced in another dtype of br bytes (br + bg) Ψ
    zero1    (bg + bw) Ψ      a reduce-scatter and an all-gather, whatever M
    zero2    (M bg + bw) Ψ    a reduce-scatter for each micro-batch
    zero3    M (2 bw + bg) Ψ  M (bw + bg) Ψ with all views kept; the last layer's bw less with that one kept
    """
    m = micro_batches
    reduce, weight = ITEMSIZE[precision.reduce], ITEMSIZE[precision.weight_wire]
    if strategy == "ddp":
        if precision.reduce == precision.summed_gradient:
            return (Use("backward", "all_reduce", 1, reduce),)
        kept = ITEMSIZE[precision.summed_gradient]
        return Use("backward", "reduce_scatter", 1, reduce), Use("update", "all_gather", 1, kept)
    if strategy == "zero1":
        return Use("backward", "reduce_scatter", 1, reduce), Use("update", "all_gather", 1, weight)
    if strategy == "zero2":
        return Use("backward", "reduce_scatter", m, reduce), Use("update", "all_gather", 1, weight)
    assert strategy == "zero3", f"no closed form for {strategy}"
    regathered = {"none": slice(None), "last": slice(None, -1), "all": slice(0)}[keep_views]
    return (
        Use("forward", "all_gather", m, weight),
        Use("backward", "all_gather", m, weight, regathered),
        Use("backward", "reduce_scatter", m, reduce),
    )


def iteration_traffic(uses: Sequence[Use], layers: Sequence[Sizes], rank: int) -> dict[tuple[str, str], Flow]:
    """Bytes that a rank sends and receives in an iteration, by (phase, collective)."""
    sent: Counter[tuple[str, str]] = Counter()
    received: Counter[tuple[str, str]] = Counter()
    for use in uses:
        for sizes in layers[use.layers]:
            flow = RING[use.collective](sizes, rank)
            sent[use.phase, use.collective] += use.times * use.itemsize * flow.sent
            received[use.phase, use.collective] += use.times * use.itemsize * flow.received
    return {key: Flow(sent[key], received[key]) for key in sent}


def persistent_bytes(
    stage: int, layers: Sequence[Sizes], rank: int, precision: Precision, num_moments: int
) -> dict[str, int]:
    """Bytes that a rank keeps between iterations, by kind.

    With Adam that is 16, 4 + 12/N, 2 + 14/N and 16/N bytes a parameter at stages 0 to 3 in bf16 with an FP32
    master, and 16, 8 + 8/N, 4 + 12/N and 16/N in plain FP32, which needs no master.
    """
    whole = sum(map(sum, layers))
    own = sum(sizes[rank] for sizes in layers)
    return {
        kind: num_bytes * (own if stage >= SHARDED_FROM[kind] else whole)
        for kind, num_bytes in precision.bytes_a_parameter(num_moments).items()
    }


def multiple(sent: int, num_params: int, world_size: int, itemsize: int) -> float | None:
    """Bytes sent as a multiple of f(N) Ψ; None on one rank, which sends nothing."""
    if world_size == 1:
        return None
    return sent * world_size / ((world_size - 1) * num_params * itemsize)
