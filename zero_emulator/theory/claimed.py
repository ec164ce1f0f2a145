"""What each strategy is: one record of what it is said to send, keeps whole, and calls in an iteration.

Of Ψ parameters, br are bytes of a gradient that is reduced, bg of one that adds up micro-batches, and bw of
a weight on the wire; M is the number of micro-batches. What is sent is times f(N) = (N - 1) / N.

Sources: S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020;
for plain data parallelism S. Li et al., PyTorch Distributed, VLDB 2020.
"""

from collections.abc import Callable
from dataclasses import dataclass

from zero_emulator.precision import ITEMSIZE, Precision
from zero_emulator.theory.training import KeepViews, Use


def _ddp(m: int, keep_views: KeepViews, precision: Precision) -> tuple[Use, ...]:
    """2 br Ψ, an all-reduce, whatever M; reduced in another dtype than it is summed in (br + bg) Ψ."""
    reduced, summed = ITEMSIZE[precision.reduce], ITEMSIZE[precision.summed_gradient]
    if precision.reduce == precision.summed_gradient:
        return (Use("backward", "all_reduce", 1, reduced),)
    return Use("backward", "reduce_scatter", 1, reduced), Use("update", "all_gather", 1, summed)


def _zero1(m: int, keep_views: KeepViews, precision: Precision) -> tuple[Use, ...]:
    """(br + bw) Ψ, a reduce-scatter and an all-gather, whatever M."""
    reduced, weight = ITEMSIZE[precision.reduce], ITEMSIZE[precision.weight_wire]
    return Use("backward", "reduce_scatter", 1, reduced), Use("update", "all_gather", 1, weight)


def _zero2(m: int, keep_views: KeepViews, precision: Precision) -> tuple[Use, ...]:
    """(M br + bw) Ψ, a reduce-scatter for each micro-batch: gradients are shards."""
    reduced, weight = ITEMSIZE[precision.reduce], ITEMSIZE[precision.weight_wire]
    return Use("backward", "reduce_scatter", m, reduced), Use("update", "all_gather", 1, weight)


def _zero3(m: int, keep_views: KeepViews, precision: Precision) -> tuple[Use, ...]:
    """M (2 bw + br) Ψ; M (bw + br) Ψ with all views kept; the last layer's M bw less with that one kept."""
    reduced, weight = ITEMSIZE[precision.reduce], ITEMSIZE[precision.weight_wire]
    regathered = {"none": slice(None), "last": slice(None, -1), "all": slice(0)}[keep_views]
    return (
        Use("forward", "all_gather", m, weight),
        Use("backward", "all_gather", m, weight, regathered),
        Use("backward", "reduce_scatter", m, reduced),
    )


@dataclass(frozen=True)
class Claimed:
    """A strategy as the closed forms know it, and in words for those who ask why."""

    claim: int
    """What it is said to send, for many ranks and one micro-batch: so many times Ψ."""
    kept_whole: tuple[str, ...]
    """The kinds of state that every rank keeps whole; of the others it keeps its block."""
    uses: Callable[[int, KeepViews, Precision], tuple[Use, ...]]
    """The collectives of an iteration, given M, the views kept and the dtypes."""
    travel: str
    """What the claim is made of."""
    each_micro_batch: str
    """What more micro-batches change."""
    reduces_runs: bool = False
    """Whether M of its uses is the number of runs of a chunk: it is for a model that is cut into chunks."""


CLAIMED = {
    "ddp": Claimed(
        claim=2,
        kept_whole=("weight", "gradient", "master", "moment"),
        uses=_ddp,
        travel="gradients travel twice",
        each_micro_batch="gradients add up before they are sent",
    ),
    "zero1": Claimed(
        claim=2,
        kept_whole=("weight", "gradient"),
        uses=_zero1,
        travel="gradients travel once, and weights once",
        each_micro_batch="gradients add up before they are sent",
    ),
    "zero2": Claimed(
        claim=2,
        kept_whole=("weight",),
        uses=_zero2,
        travel="gradients travel once, and weights once",
        each_micro_batch="each sends its gradients",
    ),
    "zero3": Claimed(
        claim=3,
        kept_whole=(),
        uses=_zero3,
        travel="gradients travel once, and weights twice",
        each_micro_batch="each gathers the weights twice and sends its gradients",
    ),
    "pipeline_zero2": Claimed(
        claim=2,
        kept_whole=("weight",),
        uses=_zero2,
        travel="gradients travel once, and weights once",
        each_micro_batch="each run of them on a chunk sends its gradients",
        reduces_runs=True,
    ),
}
"""The table of strategies in closed form; their hooks have a table of their own, to be held against it."""

PLAIN = tuple(name for name, claimed in CLAIMED.items() if not claimed.reduces_runs)
"""Those that have a use without a pipeline, and chunks of the model."""


def is_sharded(strategy: str, kind: str) -> bool:
    """Whether a rank keeps only its block of this kind of state."""
    return kind not in CLAIMED[strategy].kept_whole
