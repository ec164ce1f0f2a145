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
    """A collective that every layer (or only some) takes part in, ``times`` an iteration."""

    phase: str
    collective: str
    times: int
    layers: slice = slice(None)


def iteration_uses(strategy: str, micro_batches: int, keep_views: KeepViews) -> tuple[Use, ...]:
    """The collectives of one iteration.

    ddp      2 Ψ        an all-reduce, whatever the number M of micro-batches
    zero1    2 Ψ        a reduce-scatter and an all-gather, whatever M
    zero2    (M + 1) Ψ  a reduce-scatter for each micro-batch
    zero3    3 M Ψ      2 M Ψ with all views kept; less the last layer's gather with that one kept
    """
    m = micro_batches
    if strategy == "ddp":
        return (Use("backward", "all_reduce", 1),)
    if strategy == "zero1":
        return Use("backward", "reduce_scatter", 1), Use("update", "all_gather", 1)
    if strategy == "zero2":
        return Use("backward", "reduce_scatter", m), Use("update", "all_gather", 1)
    assert strategy == "zero3", f"no closed form for {strategy}"
    regathered = {"none": slice(None), "last": slice(None, -1), "all": slice(0)}[keep_views]
    return (
        Use("forward", "all_gather", m),
        Use("backward", "all_gather", m, regathered),
        Use("backward", "reduce_scatter", m),
    )


def iteration_traffic(
    uses: Sequence[Use], layers: Sequence[Sizes], rank: int, itemsize: int
) -> dict[tuple[str, str], Flow]:
    """Bytes that a rank sends and receives in an iteration, by (phase, collective)."""
    sent: Counter[tuple[str, str]] = Counter()
    received: Counter[tuple[str, str]] = Counter()
    for use in uses:
        for sizes in layers[use.layers]:
            flow = RING[use.collective](sizes, rank)
            sent[use.phase, use.collective] += use.times * itemsize * flow.sent
            received[use.phase, use.collective] += use.times * itemsize * flow.received
    return {key: Flow(sent[key], received[key]) for key in sent}


def persistent_bytes(
    stage: int, layers: Sequence[Sizes], rank: int, itemsize: int, num_moments: int
) -> dict[str, int]:
    """Bytes that a rank keeps between iterations, by kind.

    With Adam in plain FP32 that is 16, 8 + 8/N, 4 + 12/N and 16/N bytes a parameter at stages 0 to 3.
    """
    whole = sum(map(sum, layers))
    own = sum(sizes[rank] for sizes in layers)
    copies = {"weight": 1, "gradient": 1, "moment": num_moments}
    return {
        kind: number * itemsize * (own if stage >= SHARDED_FROM[kind] else whole)
        for kind, number in copies.items()
    }


def multiple(sent: int, num_params: int, world_size: int, itemsize: int) -> float | None:
    """Bytes sent as a multiple of f(N) Ψ; None on one rank, which sends nothing."""
    if world_size == 1:
        return None
    return sent * world_size / ((world_size - 1) * num_params * itemsize)
