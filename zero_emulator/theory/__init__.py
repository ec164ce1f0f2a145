"""Closed forms: the bytes that a rank sends, receives, keeps and holds, exactly, for any cut into blocks.

They are written down from the algorithms' definitions, not computed from schedules or runs, so that the audit
holds one against the other. Layers are given by their block sizes in elements, a tuple of one a rank. For
equal blocks the sums become the well-known multiples of f(N) Ψ with f(N) = (N - 1) / N. Each file names its
sources.
"""

from zero_emulator.theory.accumulators import most_accumulated
from zero_emulator.theory.claimed import CLAIMED, PLAIN, Claimed, is_sharded
from zero_emulator.theory.due import Due, overhead, sharers_overhead, world_overhead
from zero_emulator.theory.frozen import Frozen
from zero_emulator.theory.growths import Passing, Samples, UpdateStep
from zero_emulator.theory.kept import persistent_bytes
from zero_emulator.theory.link import LinkBytes, link_bytes
from zero_emulator.theory.muon import muon_fetches, num_fetches
from zero_emulator.theory.overhead import CHECK_BYTES, DIGEST_BYTES, HEADER_BYTES, VERSION_BYTES, call_checks
from zero_emulator.theory.peak import highest_peak
from zero_emulator.theory.rings import (
    NOTHING,
    PASSES,
    Flow,
    Scratch,
    Sizes,
    ring_all_gather,
    ring_all_reduce,
    ring_flow,
    ring_reduce_scatter,
    ring_scratch,
)
from zero_emulator.theory.scratch import elementwise_scratch, muon_scratch
from zero_emulator.theory.training import (
    KeepViews,
    Use,
    iteration_traffic,
    multiple,
    num_calls,
)
from zero_emulator.theory.updates import UPDATES, Moments, Updates, find_updates

__all__ = [
    "CHECK_BYTES",
    "CLAIMED",
    "DIGEST_BYTES",
    "HEADER_BYTES",
    "NOTHING",
    "PASSES",
    "PLAIN",
    "UPDATES",
    "VERSION_BYTES",
    "Claimed",
    "Due",
    "Flow",
    "Frozen",
    "KeepViews",
    "LinkBytes",
    "Moments",
    "Passing",
    "Samples",
    "Scratch",
    "Sizes",
    "UpdateStep",
    "Updates",
    "Use",
    "call_checks",
    "elementwise_scratch",
    "find_updates",
    "highest_peak",
    "is_sharded",
    "iteration_traffic",
    "link_bytes",
    "most_accumulated",
    "multiple",
    "muon_fetches",
    "muon_scratch",
    "num_calls",
    "num_fetches",
    "overhead",
    "persistent_bytes",
    "ring_all_gather",
    "ring_all_reduce",
    "ring_flow",
    "ring_reduce_scatter",
    "ring_scratch",
    "sharers_overhead",
    "world_overhead",
]
