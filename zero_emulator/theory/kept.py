"""Persistent bytes: what a rank keeps between iterations, by kind.

Source: S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020.
"""

from collections.abc import Sequence

from zero_emulator.precision import Precision
from zero_emulator.theory.rings import Sizes

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
