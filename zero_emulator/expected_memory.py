"""What a rank of a run must keep and hold: the closed forms, given what the run was told."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from collectives.table import counted
from zero_emulator import theory
from zero_emulator.config import RunConfig
from zero_emulator.expected_reference import frozen_on, rows_of
from zero_emulator.host import on_host
from zero_emulator.meter import Peak
from zero_emulator.partition import Partition
from zero_emulator.pipeline import Backward, runs
from zero_emulator.precision import ITEMSIZE
from zero_emulator.share import Share

LABEL_BYTES = 8
"""Bytes of the class of a sample."""


def expected_persistent(config: RunConfig, partition: Partition, rank: int) -> dict[str, int]:
    """What a rank of this run must keep between iterations, in bytes by kind; ``host moment`` on its host."""
    policy, moved = config.policy, on_host(config.offload)
    if "master" in moved and policy.master is None:
        policy = replace(policy, master=policy.weight)
    moments = theory.find_updates(config.optimizer, config.momentum).moments
    kept: Counter[str] = Counter()
    for held in partition.share(rank).classes:
        matrices = [shares for one in held for shares in one.matrices]
        position = held[0].sharers.index(rank)
        blocks = [one.sizes for one in held]
        of_class = theory.persistent_bytes(config.strategy, blocks, position, policy, moments, matrices)
        kept.update(of_class)
    return {f"host {kind}" if kind in moved else kind: num_bytes for kind, num_bytes in kept.items()}


def whole_gradients(config: RunConfig, partition: Partition, rank: int) -> int:
    """Bytes of the gradients that a rank adds up, if it kept them whole."""
    elements = sum(sum(held.sizes) for held in partition.share(rank).held)
    return elements * ITEMSIZE[config.policy.summed_gradient]


def expected_gradients(config: RunConfig, partition: Partition, rank: int) -> int:
    """The most bytes of gradients that have added up which a rank must hold at once.

    That is what it keeps on the device, and the accumulators of runs where those are reduced.
    """
    kept = expected_persistent(config, partition, rank).get("gradient", 0)
    passing = theory.most_accumulated(_accumulators(config, partition.share(rank)))
    moved = on_host(config.offload)
    if "gradient" in moved and "moment" not in moved:  # an update has shards in the same slots
        shards = [one.sizes[one.sharers.index(rank)] for one in partition.share(rank).held]
        passing = max(passing, theory.most_accumulated(shards))
    return kept + ITEMSIZE[config.policy.summed_gradient] * passing


def _accumulators(config: RunConfig, share: Share) -> list[int]:
    """Elements of the accumulators of an iteration, in turn: of chunks, or of layers on their way."""
    sizes = [sum(held.sizes) for held in share.held]
    if theory.CLAIMED[config.strategy].reduces_runs:
        return [sum(sizes[place] for place in share.chunks[chunk]) for chunk, _ in runs(share.order)]
    if "gradients" in config.offload:
        backwards = [action.chunk for action in share.order if isinstance(action, Backward)]
        return [sizes[place] for chunk in backwards for place in reversed(share.chunks[chunk])]
    return []


def knows_peak(config: RunConfig, partition: Partition) -> bool:
    """Whether there is a closed form of all that passes."""
    return partition.is_plain and not config.offload


def expected_peak(config: RunConfig, partition: Partition, rank: int, skipped: Collection[int] = ()) -> Peak:
    """The most that a rank must hold at once; ``skipped`` are the iterations whose update was voted down."""
    policy, layers = config.policy, partition.layers
    frozen = frozen_on(config, partition, rank)
    one_hot = layers[-1].outputs * ITEMSIZE[policy.compute]
    passing = theory.Passing(
        config.strategy,
        partition.blocks,
        rank,
        policy,
        theory.Samples(
            widths=(layers[0].inputs, *(layer.outputs for layer in layers)),
            rows=rows_of(config, partition, rank),
            target_bytes=one_hot if config.loss == "mse" else LABEL_BYTES,
        ),
        theory.UpdateStep(
            scratch=expected_scratch(config, partition, rank),
            reduces_scalars=config.clip is not None or policy.votes,
        ),
        prefetch=config.prefetch,
        keep_views=config.keep_views,
        scratch=config.chosen.scratch,
        frozen=frozen,
    )
    kept = Counter(expected_persistent(config, partition, rank))
    if frozen is not None:
        kept["reference"] = frozen.kept
    updated = (iteration for iteration in range(1, config.iterations + 1) if iteration not in skipped)
    return theory.highest_peak(kept, passing, next(updated, None))


def expected_scratch(config: RunConfig, partition: Partition, rank: int) -> list[int]:
    """Elements that a rank's optimizer works in, one after the other."""
    sharded = theory.is_sharded(config.strategy, "moment")
    updates = theory.UPDATES[config.optimizer]
    scratch = []
    for layer, sizes, shares in zip(partition.layers, partition.blocks, partition.matrices, strict=True):
        updated, in_matrix = (sizes[rank], shares[rank]) if sharded else (sum(sizes), sum(shares))
        if updates.whole_matrices:
            scratch += theory.muon_scratch(layer.shapes[0][1], in_matrix)
            updated -= in_matrix
        scratch += theory.elementwise_scratch(updates.pieces, updated)
    return scratch


def peaks(config: RunConfig, partition: Partition) -> dict[str, int]:
    """Peak bytes of the rank that holds most, by strategy."""
    ranks = range(partition.world_size)
    return {
        name: max(expected_peak(replace(config, strategy=name), partition, rank).total for rank in ranks)
        for name in theory.PLAIN
    }


def too_large(config: RunConfig, partition: Partition) -> dict[str, int]:
    """The peaks of the strategies that do not fit the device."""
    if config.device_memory is None or not knows_peak(config, partition):
        return {}
    return {name: peak for name, peak in peaks(config, partition).items() if peak > config.device_memory}


def advise(config: RunConfig, partition: Partition) -> str:
    """What to do where a strategy does not fit: stream the reference, or take one that does."""
    streamed = _streamed(config)
    if not knows_peak(config, partition):
        smaller = ", or --chunks of fewer layers" if theory.CLAIMED[config.strategy].reduces_runs else ""
        on_host = ", or --reference-on host" if streamed else ""
        return f"take more ranks, or more micro-batches{smaller}{on_host}"
    if streamed is not None and config.strategy not in too_large(streamed, partition):
        return (
            f"{config.strategy} holds {peaks(config, partition)[config.strategy]} on "
            f"{counted(partition.world_size, 'rank')}, and with --reference-on host "
            f"{peaks(streamed, partition)[config.strategy]}"
        )
    held, large = peaks(config, partition), too_large(config, partition)
    fit = [f"{name} with {peak}" for name, peak in held.items() if name not in large]
    ranks = f"on {counted(partition.world_size, 'rank')}"
    if fit:
        return f"{config.strategy} holds {held[config.strategy]} {ranks}; what fits is {', '.join(fit)}"
    least = min(held, key=lambda name: held[name])
    return f"even {least} holds {held[least]} {ranks}: take more ranks, or more micro-batches"


def advise_host(config: RunConfig) -> str:
    """What to do where the host has not the room for what is kept there."""
    less = [f"drop --offload {name}" for name in dict.fromkeys(config.offload)]
    if config.reference is not None and config.reference.on == "host":
        less.append("--reference-on device")
    return " or ".join(["take a larger --host-memory", *less])


def _streamed(config: RunConfig) -> RunConfig | None:
    """The same run with its reference on the host, if that is not where it is."""
    if config.reference is None or config.reference.on == "host":
        return None
    return replace(config, reference=replace(config.reference, on="host"))
