"""Traffic of an iteration in closed form for equal blocks: what a rank sends is f(N) Ψ times so many bytes.

f(N) = (N - 1) / N is what one ring reduce-scatter or all-gather of a byte a parameter sends. Per parameter,
with bw bytes of a weight and bg of a gradient on the wire, br of a gradient that is reduced in another dtype,
and M micro-batches:

    ddp     br + bg                 once, whatever M
    zero1   br + bw                 once, whatever M
    zero2   M br + bw               gradients are shards, so each micro-batch is reduced
    zero3   M (2 bw + br)           M (bw + br) with views kept from forward to backward

Sources: S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020;
P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 2009.
"""

from fractions import Fraction
from typing import NamedTuple

from zero_emulator.precision import ITEMSIZE, Precision


class Coefficient(NamedTuple):
    """Bytes that a parameter adds to what is sent, before f(N), and how they come about."""

    size: int
    formula: str


def share_sent(copies: int) -> Fraction:
    """f(N): the share of a buffer that a rank sends in one ring pass; nothing on one rank."""
    return Fraction(copies - 1, copies)


def sent_a_parameter(
    strategy: str, precision: Precision, micro_batches: int, *, keep_views: bool = False
) -> Coefficient:
    """What one parameter costs in an iteration: bytes sent = f(N) Ψ size."""
    gradient, weight = ITEMSIZE[precision.summed_gradient], ITEMSIZE[precision.weight_wire]
    reduce, m = ITEMSIZE[precision.reduce], micro_batches
    if strategy == "ddp":
        return Coefficient(reduce + gradient, f"f ({reduce} + {gradient}) Ψ")
    if strategy == "zero1":
        return Coefficient(reduce + weight, f"f ({reduce} + {weight}) Ψ")
    if strategy == "zero2":
        return Coefficient(m * reduce + weight, f"f ({_times(m)}{reduce} + {weight}) Ψ")
    assert strategy == "zero3", f"no closed form for {strategy}"
    if keep_views:
        return Coefficient(m * (weight + reduce), f"{_times(m)}f ({weight} + {reduce}) Ψ")
    return Coefficient(m * (2 * weight + reduce), f"{_times(m)}f (2·{weight} + {reduce}) Ψ")


def _times(micro_batches: int) -> str:
    return "" if micro_batches == 1 else f"{micro_batches}·"
