"""Training traffic: which collectives each strategy calls in an iteration, and the bytes that they send.

Sources: S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020;
for plain data parallelism S. Li et al., PyTorch Distributed, VLDB 2020.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from zero_emulator.precision import ITEMSIZE, Precision
from zero_emulator.theory.muon import muon_fetches
from zero_emulator.theory.rings import NOTHING, RING, Flow, Sizes

KeepViews = Literal["none", "last", "all"]

CLAIMS = {"ddp": 2, "zero1": 2, "zero2": 2, "zero3": 3}
"""What each strategy is said to send, for many ranks and one micro-batch: so many times Ψ."""


class Use(NamedTuple):
    """A collective that every layer (or only some) takes part in, ``times`` an iteration, in one dtype."""

    phase: str
    collective: str
    times: int
    itemsize: int
    layers: slice = slice(None)


def _ddp(m: int, keep_views: KeepViews, precision: Precision) -> tuple[Use, ...]:
    """2 bg Ψ, an all-reduce, whatever M; reduced in another dtype of br bytes (br + bg) Ψ."""
    reduce, kept = ITEMSIZE[precision.reduce], ITEMSIZE[precision.summed_gradient]
    if precision.reduce == precision.summed_gradient:
        return (Use("backward", "all_reduce", 1, reduce),)
    return Use("backward", "reduce_scatter", 1, reduce), Use("update", "all_gather", 1, kept)


def _zero1(m: int, keep_views: KeepViews, precision: Precision) -> tuple[Use, ...]:
    """(bg + bw) Ψ, a reduce-scatter and an all-gather, whatever M."""
    reduce, weight = ITEMSIZE[precision.reduce], ITEMSIZE[precision.weight_wire]
    return Use("backward", "reduce_scatter", 1, reduce), Use("update", "all_gather", 1, weight)


def _zero2(m: int, keep_views: KeepViews, precision: Precision) -> tuple[Use, ...]:
    """(M bg + bw) Ψ, a reduce-scatter for each micro-batch."""
    reduce, weight = ITEMSIZE[precision.reduce], ITEMSIZE[precision.weight_wire]
    return Use("backward", "reduce_scatter", m, reduce), Use("update", "all_gather", 1, weight)


def _zero3(m: int, keep_views: KeepViews, precision: Precision) -> tuple[Use, ...]:
    """M (2 bw + bg) Ψ; M (bw + bg) Ψ with all views kept; the last layer's bw less with that one kept."""
    reduce, weight = ITEMSIZE[precision.reduce], ITEMSIZE[precision.weight_wire]
    regathered = {"none": slice(None), "last": slice(None, -1), "all": slice(0)}[keep_views]
    return (
        Use("forward", "all_gather", m, weight),
        Use("backward", "all_gather", m, weight, regathered),
        Use("backward", "reduce_scatter", m, reduce),
    )


USES: dict[str, Callable[[int, KeepViews, Precision], tuple[Use, ...]]] = {
    "ddp": _ddp,
    "zero1": _zero1,
    "zero2": _zero2,
    "zero3": _zero3,
}
"""By strategy, the collectives of an iteration with M micro-batches. The formulas in their docstrings are
times f(N); bg and bw are the bytes of a gradient and of a weight on the wire."""


def iteration_traffic(
    uses: Sequence[Use],
    layers: Sequence[Sizes],
    rank: int,
    fetched: Sequence[Sizes] = (),
    fetched_itemsize: int = 0,
) -> dict[tuple[str, str], Flow]:
    """Bytes that a rank sends and receives in an iteration, by (phase, collective).

    ``fetched`` are matrices that ranks fetch from each other for Muon, by their shares.
    """
    flows: dict[tuple[str, str], Flow] = {}
    for use in uses:
        for sizes in layers[use.layers]:
            flow = RING[use.collective](sizes, rank).times(use.times * use.itemsize)
            key = use.phase, use.collective
            flows[key] = flows.get(key, NOTHING) + flow
    if fetched:
        key = "update", "all_gather"
        flows[key] = flows.get(key, NOTHING) + muon_fetches(fetched, rank, fetched_itemsize)
    return flows


def num_calls(uses: Sequence[Use], num_layers: int) -> int:
    """The collectives that an iteration calls for training."""
    return sum(use.times * len(range(num_layers)[use.layers]) for use in uses)


def multiple(sent: int, num_params: int, world_size: int, itemsize: int) -> float | None:
    """Bytes sent as a multiple of f(N) Ψ; None on one rank, which sends nothing."""
    if world_size == 1:
        return None
    return sent * world_size / ((world_size - 1) * num_params * itemsize)
