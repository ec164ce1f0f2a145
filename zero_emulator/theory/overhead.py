"""Control and audit traffic: what checks, versions, votes and digests send, counted apart from training."""

from collections.abc import Sequence

from collectives.blocks import even_cut
from zero_emulator.theory.rings import NOTHING, Flow, Sizes, ring_all_gather, ring_all_reduce

CHECK_BYTES, VERSION_BYTES, SCALAR_BYTES, DIGEST_BYTES, HEADER_BYTES = 128, 8, 8, 16, 128
"""Bytes of a rank's record in a call check, of a version, of a norm or a vote, of a digest, of what goes
before a message between stages."""


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
