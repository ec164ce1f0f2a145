"""Closed forms: the bytes that a rank sends, receives and keeps, exactly, for any cut into blocks.

They are written down from the algorithms' definitions, not computed from schedules or runs, so that the audit
holds one against the other. Layers are given by their block sizes in elements, a tuple of one a rank; s_r is
block r and S the sum. For equal blocks the sums become the well-known multiples of f(N) Ψ with
f(N) = (N - 1) / N.

Sources: S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020;
P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 2009.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from collectives.blocks import even_cut
from zero_emulator.precision import ITEMSIZE, Precision

Sizes = tuple[int, ...]
KeepViews = Literal["none", "last", "all"]


class Flow(NamedTuple):
    """What one rank sends and receives: in elements of a block, or in bytes."""

    sent: int
    received: int

    def __add__(self, other: object) -> "Flow":  # of flows, not of tuples
        assert isinstance(other, Flow)
        return Flow(self.sent + other.sent, self.received + other.received)

    def times(self, number: int) -> "Flow":
        return Flow(number * self.sent, number * self.received)


NOTHING = Flow(0, 0)


def ring_reduce_scatter(sizes: Sizes, rank: int) -> Flow:
    """Sends S - s_r: all blocks but its own. Receives S - s_(r-1)."""
    return Flow(sum(sizes) - sizes[rank], sum(sizes) - sizes[rank - 1])


def ring_all_gather(sizes: Sizes, rank: int) -> Flow:
    """Sends S - s_(r+1): all blocks but the one its right neighbour owns. Receives S - s_r."""
    return Flow(sum(sizes) - sizes[(rank + 1) % len(sizes)], sum(sizes) - sizes[rank])


def ring_all_reduce(sizes: Sizes, rank: int) -> Flow:
    """A reduce-scatter and an all-gather."""
    return ring_reduce_scatter(sizes, rank) + ring_all_gather(sizes, rank)


RING: dict[str, Callable[[Sizes, int], Flow]] = {
    "all_gather": ring_all_gather,
    "reduce_scatter": ring_reduce_scatter,
    "all_reduce": ring_all_reduce,
}


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


def iteration_traffic(uses: Sequence[Use], layers: Sequence[Sizes], rank: int) -> dict[tuple[str, str], Flow]:
    """Bytes that a rank sends and receives in an iteration, by (phase, collective)."""
    flows: dict[tuple[str, str], Flow] = {}
    for use in uses:
        for sizes in layers[use.layers]:
            flow = RING[use.collective](sizes, rank).times(use.times * use.itemsize)
            key = use.phase, use.collective
            flows[key] = flows.get(key, NOTHING) + flow
    return flows


def num_calls(uses: Sequence[Use], num_layers: int) -> int:
    """The collectives that an iteration calls for training."""
    return sum(use.times * len(range(num_layers)[use.layers]) for use in uses)


CHECK_BYTES, VERSION_BYTES, SCALAR_BYTES, DIGEST_BYTES = 128, 8, 8, 16
"""Of a rank's record in a call check, of a version, of a norm or a vote, of a digest."""


def call_checks(calls: int, world_size: int, rank: int) -> Flow:
    """Control: before each call every rank gathers every other's record."""
    return ring_all_gather((CHECK_BYTES,) * world_size, rank).times(calls)


def versions(num_layers: int, world_size: int, rank: int) -> Flow:
    """Control: after each iteration every rank gathers the versions of every other's shards."""
    return ring_all_gather((num_layers * VERSION_BYTES,) * world_size, rank)


def scalar_all_reduces(number: int, world_size: int, rank: int) -> Flow:
    """Control: a global norm, and a vote on gradients that are not finite, are one number each."""
    return ring_all_reduce(even_cut(1, world_size), rank).times(number * SCALAR_BYTES)


def digests(world_size: int, rank: int) -> Flow:
    """Audit: every rank gathers every other's digest."""
    return ring_all_gather((DIGEST_BYTES,) * world_size, rank)


def gathered_layers(layers: Sequence[Sizes], rank: int, itemsize: int) -> Flow:
    """Audit: every layer once, as weights after the last iteration, or as gradients after the first."""
    flow = NOTHING
    for sizes in layers:
        flow += ring_all_gather(sizes, rank).times(itemsize)
    return flow


KEPT_WHOLE = {
    "ddp": ("weight", "gradient", "master", "moment"),
    "zero1": ("weight", "gradient"),
    "zero2": ("weight",),
    "zero3": (),
}
"""What each strategy keeps whole on every rank; the rest is kept as a block."""


def is_sharded(strategy: str, kind: str) -> bool:
    """Whether a rank keeps only its block of this kind of state."""
    return kind not in KEPT_WHOLE[strategy]


def num_moments(optimizer: str, momentum: float | None) -> int:
    """Moments a parameter: Adam has two, SGD one if it has momentum."""
    return {"sgd": 1 if momentum else 0, "adam": 2, "adamw": 2}[optimizer]


def persistent_bytes(
    strategy: str, layers: Sequence[Sizes], rank: int, precision: Precision, moments: int
) -> dict[str, int]:
    """Bytes that a rank keeps between iterations, by kind.

    With Adam that is 16, 4 + 12/N, 2 + 14/N and 16/N bytes a parameter in bf16 with an FP32 master, for plain
    data parallelism and ZeRO-1, 2 and 3; and 16, 8 + 8/N, 4 + 12/N and 16/N in plain FP32, without a master.
    """
    whole = sum(map(sum, layers))
    own = sum(sizes[rank] for sizes in layers)
    return {
        kind: num_bytes * (own if is_sharded(strategy, kind) else whole)
        for kind, num_bytes in precision.bytes_a_parameter(moments).items()
    }


def multiple(sent: int, num_params: int, world_size: int, itemsize: int) -> float | None:
    """Bytes sent as a multiple of f(N) Ψ; None on one rank, which sends nothing."""
    if world_size == 1:
        return None
    return sent * world_size / ((world_size - 1) * num_params * itemsize)
