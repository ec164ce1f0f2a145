"""Closed forms: the bytes that a rank sends, receives and keeps, exactly, for any cut into blocks.

They are written down from the algorithms' definitions, not computed from schedules or runs, so that the audit
holds one against the other. Layers are given by their block sizes in elements, a tuple of one a rank. For
equal blocks the sums become the well-known multiples of f(N) Ψ with f(N) = (N - 1) / N. Each file names its
sources.
"""

from zero_emulator.theory.kept import KEPT_WHOLE, MOMENTS, Moments, is_sharded, persistent_bytes
from zero_emulator.theory.muon import fetch_checks, muon_fetches, num_fetches
from zero_emulator.theory.overhead import (
    CHECK_BYTES,
    DIGEST_BYTES,
    call_checks,
    digests,
    gathered_layers,
    scalar_all_reduces,
    versions,
)
from zero_emulator.theory.rings import (
    NOTHING,
    RING,
    Flow,
    Sizes,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
)
from zero_emulator.theory.training import (
    CLAIMS,
    USES,
    KeepViews,
    Use,
    iteration_traffic,
    multiple,
    num_calls,
)

__all__ = [
    "CHECK_BYTES",
    "CLAIMS",
    "DIGEST_BYTES",
    "KEPT_WHOLE",
    "MOMENTS",
    "NOTHING",
    "RING",
    "USES",
    "Flow",
    "KeepViews",
    "Moments",
    "Sizes",
    "Use",
    "call_checks",
    "digests",
    "fetch_checks",
    "gathered_layers",
    "is_sharded",
    "iteration_traffic",
    "multiple",
    "muon_fetches",
    "num_calls",
    "num_fetches",
    "persistent_bytes",
    "ring_all_gather",
    "ring_all_reduce",
    "ring_reduce_scatter",
    "scalar_all_reduces",
    "versions",
]
