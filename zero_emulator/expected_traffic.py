"""What a rank of a run must send and receive: the closed forms, given what the run was told."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from collectives.blocks import even_cut
from collectives.ledger import Kind
from zero_emulator import theory
from zero_emulator.config import RunConfig
from zero_emulator.expected_experts import expected_counts, expected_exchanges
from zero_emulator.expected_messages import expected_headers, expected_messages
from zero_emulator.experts import Routing
from zero_emulator.partition import Partition
from zero_emulator.pipeline import most_runs, orders, runs
from zero_emulator.precision import ITEMSIZE
from zero_emulator.share import Held, Share
from zero_emulator.theory import Due, Flow, Sizes, Use

Key = TypeVar("Key", bound=Hashable)

NO_ROUTINGS: Mapping[tuple[int, int], Routing] = MappingProxyType({})

AXES = {"send": "pipeline", "all_to_all": "expert"}
"""The axis of the grid that a collective of training goes along, if that is not the data axis."""


def num_rounds(config: RunConfig) -> int:
    """M of the strategy's closed form: the micro-batches, or the runs of them that a chunk has, at most."""
    if not theory.CLAIMED[config.strategy].reduces_runs:
        return config.micro_batches
    return most_runs(orders(config.schedule, config.pipeline, config.chunks, config.micro_batches))


def training_uses(config: RunConfig, rounds: int | None = None) -> tuple[Use, ...]:
    """The collectives of an iteration for training, in so many ``rounds`` if not as many as num_rounds."""
    many = num_rounds(config) if rounds is None else rounds
    return theory.CLAIMED[config.strategy].uses(many, config.keep_views, config.policy)


def called(config: RunConfig) -> set[str]:
    """What training calls: among those who share a copy, and all_reduce where there are copies to reduce."""
    return {use.collective for use in training_uses(config)} | (
        {"all_reduce"} if config.shard_size else set()
    )


def fetched_matrices(config: RunConfig, matrices: Sequence[Sizes], *, skipped: bool) -> tuple[Sizes, ...]:
    """Those of the model's matrices whose update ranks gather from each other; none if it was skipped."""
    whole_matrices = theory.UPDATES[config.optimizer].whole_matrices
    shares = whole_matrices and theory.is_sharded(config.strategy, "moment")
    return tuple(matrices) if shares and not skipped else ()


def first_update(iterations: int, skipped: Collection[int]) -> int | None:
    """The first of so many iterations whose update was not skipped: the one whose gradients are audited."""
    return next((one for one in range(1, iterations + 1) if one not in skipped), None)


def due_besides(
    config: RunConfig,
    training_calls: int,
    matrices: Sequence[Sizes],
    iteration: int,
    *,
    skipped: bool,
    gradient_audit: bool,
) -> Due:
    """What falls due besides training in one iteration, whose update was ``skipped`` by vote or was not.

    ``training_calls``: the collectives for training. ``gradient_audit``: whether its gradients are gathered,
    where not all ranks have them.
    """
    policy = config.policy
    last = iteration == config.iterations
    weights = last and theory.is_sharded(config.strategy, "weight")
    gradients = gradient_audit and theory.is_sharded(config.strategy, "moment")  # reduced in blocks
    return Due(
        training_calls=training_calls,
        fetched=fetched_matrices(config, matrices, skipped=skipped),
        vote=policy.votes,
        norm=config.clip is not None and not skipped,
        digest=last or iteration % config.audit_every == 0,
        weight_bytes=ITEMSIZE[policy.weight_wire] if weights else 0,
        gradient_bytes=ITEMSIZE[policy.summed_gradient] if gradients else 0,
    )


def expected_traffic(
    config: RunConfig,
    partition: Partition,
    rank: int,
    *,
    skipped: bool = False,
    routings: Mapping[tuple[int, int], Routing] = NO_ROUTINGS,
) -> dict[tuple[str, str], Flow]:
    """What a rank must send and receive for training in an iteration, by (phase, collective).

    ``skipped``: the update was voted down. ``routings``: where routers sent which samples.
    """
    share = partition.share(rank)
    flows = expected_messages(config, partition, rank)
    _add(flows, expected_exchanges(config, partition, rank, routings))
    for held in share.classes:
        _add(flows, _among_sharers(config, share, held, skipped=skipped))
        _add(flows, _among_twins(config, held, rank))
    return flows


def expected_by_axis(flows: Mapping[tuple[str, str], Flow]) -> dict[str, Flow]:
    """The same by axis of the grid: what a collective is for says along which one it goes."""
    by_axis: dict[str, Flow] = {}
    for (_, collective), flow in flows.items():
        _add(by_axis, {AXES.get(collective, "data"): flow})
    return by_axis


def expected_overhead(
    config: RunConfig,
    partition: Partition,
    rank: int,
    iteration: int,
    *,
    skipped: bool = False,
    gradient_audit: bool = False,
) -> dict[Kind, Flow]:
    """What a rank must send and receive besides in an iteration: control and audit."""
    purposes = expected_headers(partition, rank)
    _add(purposes, expected_counts(config, partition, rank))
    share = partition.share(rank)
    for held in share.classes:
        due = due_besides(
            config,
            sum(theory.num_calls(uses, len(some)) for uses, some in _by_uses(config, share, held)),
            _matrices(held),
            iteration,
            skipped=skipped,
            gradient_audit=gradient_audit,
        )
        _add(purposes, theory.sharers_overhead(due, [one.sizes for one in held], _position(held, rank)))
        twins = held[0].twins
        if len(twins) > 1:
            checks = theory.call_checks(len(held), len(twins), twins.index(rank))
            _add(purposes, {("control", "call checks"): checks})
    _add(purposes, theory.world_overhead(due, partition.world_size, rank, partition.num_classes))
    flows: dict[Kind, Flow] = {"control": theory.NOTHING, "audit": theory.NOTHING}
    for (kind, _), flow in purposes.items():
        flows[kind] += flow
    return flows


def _by_uses(
    config: RunConfig, share: Share, held: Sequence[Held]
) -> Iterator[tuple[tuple[Use, ...], list[Held]]]:
    """These layers by the collectives that they take part in: all alike, unless each chunk has its runs."""
    if not theory.CLAIMED[config.strategy].reduces_runs:
        if config.keep_views == "last" and held[-1] is not share.held[-1]:  # another class has that layer
            config = replace(config, keep_views="none")
        yield training_uses(config), list(held)
        return
    num_runs = Counter(chunk for chunk, _ in runs(share.order))
    for chunk, places in share.chunks.items():
        layers = {share.held[place].layer for place in places}
        yield training_uses(config, num_runs[chunk]), [one for one in held if one.layer in layers]


def _among_sharers(
    config: RunConfig, share: Share, held: Sequence[Held], *, skipped: bool
) -> dict[tuple[str, str], Flow]:
    """What those send each other who shard these layers."""
    position, flow_of = _position(held, share.rank), config.chosen.flow
    fetched = fetched_matrices(config, _matrices(held), skipped=skipped)
    updated = ITEMSIZE[config.policy.updated]
    flows = theory.iteration_traffic((), (), position, fetched, updated)
    for uses, some in _by_uses(config, share, held):
        _add(flows, theory.iteration_traffic(uses, [one.sizes for one in some], position, flow_of=flow_of))
    return flows


def _among_twins(config: RunConfig, held: Sequence[Held], rank: int) -> dict[tuple[str, str], Flow]:
    """What those send each other who keep the same shards: its gradient, reduced over them."""
    twins, position = held[0].twins, _position(held, rank)
    if len(twins) == 1:
        return {}
    blocks = [even_cut(one.sizes[position], len(twins)) for one in held]
    use = Use("update", "all_reduce", 1, ITEMSIZE[config.policy.summed_gradient])
    return theory.iteration_traffic([use], blocks, twins.index(rank), flow_of=config.chosen.flow)


def _position(held: Sequence[Held], rank: int) -> int:
    """Which of the ranks that shard these layers it is."""
    return held[0].sharers.index(rank)


def _matrices(held: Sequence[Held]) -> list[Sizes]:
    return [shares for one in held for shares in one.matrices]


def _add(flows: dict[Key, Flow], more: Mapping[Key, Flow]) -> None:
    for key, flow in more.items():
        flows[key] = flows.get(key, theory.NOTHING) + flow
