"""What a rank of a run must copy between host and device: the closed form, given what the run was told."""

from collections import Counter

from zero_emulator import theory
from zero_emulator.config import RunConfig
from zero_emulator.host import on_host
from zero_emulator.partition import Partition
from zero_emulator.pipeline import runs
from zero_emulator.theory import LinkBytes


def expected_link(config: RunConfig, partition: Partition, rank: int, *, skipped: bool = False) -> LinkBytes:
    """Bytes each way in an iteration; ``skipped``: its update was voted down."""
    share, moved = partition.share(rank), on_host(config.offload)
    num_runs = Counter(chunk for chunk, _ in runs(share.order))
    copied = [LinkBytes(0, 0)]
    for chunk, places in share.chunks.items():
        times = num_runs[chunk] if theory.CLAIMED[config.strategy].reduces_runs else config.micro_batches
        for held in share.held[places.start : places.stop]:
            sharded = theory.is_sharded(config.strategy, "moment")
            elements = held.sizes[held.sharers.index(rank)] if sharded else sum(held.sizes)
            copied.append(theory.link_bytes(elements, times, config.policy, moved, updates=not skipped))
    return LinkBytes(*map(sum, zip(*copied, strict=True)))
