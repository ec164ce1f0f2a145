"""Persistent bytes: what a rank keeps between iterations, by kind.

Source: S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC 2020.
"""

from collections.abc import Sequence

from zero_emulator.precision import ITEMSIZE, Precision
from zero_emulator.theory.claimed import is_sharded
from zero_emulator.theory.rings import Sizes
from zero_emulator.theory.updates import Moments


def persistent_bytes(
    strategy: str,
    layers: Sequence[Sizes],
    rank: int,
    precision: Precision,
    moments: Moments,
    matrices: Sequence[Sizes] = (),
) -> dict[str, int]:
    """Bytes that a rank keeps between iterations, by kind; ``matrices`` are each rank's shares of each.

    With Adam that is 16, 4 + 12/N, 2 + 14/N and 16/N bytes a parameter in bf16 with an FP32 master, for plain
    data parallelism and ZeRO-1, 2 and 3; and 16, 8 + 8/N, 4 + 12/N and 16/N in plain FP32, without a master.
    With Muon a matrix's parameter has one moment: 12, 4 + 8/N, 2 + 10/N and 12/N.
    """
    kept = {}
    for kind, num_bytes in precision.bytes_a_parameter(0).items():
        kept[kind] = num_bytes * _elements(strategy, kind, layers, rank)
    in_matrices = _elements(strategy, "moment", matrices, rank)
    elsewhere = _elements(strategy, "moment", layers, rank) - in_matrices
    num_moments = moments.matrix * in_matrices + moments.rest * elsewhere
    kept["moment"] = num_moments * ITEMSIZE[precision.moment]
    return kept


def _elements(strategy: str, kind: str, buffers: Sequence[Sizes], rank: int) -> int:
    """Elements of the buffers that a rank keeps of this kind of state."""
    if is_sharded(strategy, kind):
        return sum(sizes[rank] for sizes in buffers)
    return sum(map(sum, buffers))
