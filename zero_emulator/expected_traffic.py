"""What a rank of a run must send and receive: the closed forms, given what the run was told."""

from collections.abc import Collection, Sequence

from collectives.ledger import Kind
from zero_emulator import theory
from zero_emulator.config import RunConfig
from zero_emulator.partition import Partition
from zero_emulator.precision import ITEMSIZE
from zero_emulator.theory import Due, Flow, Sizes, Use


def training_uses(config: RunConfig) -> tuple[Use, ...]:
    """The collectives of an iteration for training."""
    return theory.CLAIMED[config.strategy].uses(config.micro_batches, config.keep_views, config.policy)


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
    num_layers: int,
    matrices: Sequence[Sizes],
    iteration: int,
    *,
    skipped: bool,
    gradient_audit: bool,
) -> Due:
    """What falls due besides training in one iteration, whose update was ``skipped`` by vote or was not.

    ``gradient_audit``: whether its gradients are gathered, where not all ranks have them.
    """
    policy = config.policy
    last = iteration == config.iterations
    weights = last and theory.is_sharded(config.strategy, "weight")
    gradients = gradient_audit and theory.is_sharded(config.strategy, "moment")  # reduced in blocks
    return Due(
        training_calls=theory.num_calls(training_uses(config), num_layers),
        fetched=fetched_matrices(config, matrices, skipped=skipped),
        vote=policy.votes,
        norm=config.clip is not None and not skipped,
        digest=last or iteration % config.audit_every == 0,
        weight_bytes=ITEMSIZE[policy.weight_wire] if weights else 0,
        gradient_bytes=ITEMSIZE[policy.summed_gradient] if gradients else 0,
    )


def expected_traffic(
    config: RunConfig, partition: Partition, rank: int, *, skipped: bool = False
) -> dict[tuple[str, str], Flow]:
    """What a rank must send and receive for training in an iteration, by (phase, collective).

    ``skipped``: the update was voted down.
    """
    fetched = fetched_matrices(config, partition.matrices, skipped=skipped)
    return theory.iteration_traffic(
        training_uses(config),
        partition.blocks,
        rank,
        fetched,
        ITEMSIZE[config.policy.updated],
        config.chosen.flow,
    )


def expected_overhead(partition: Partition, rank: int, due: Due) -> dict[Kind, Flow]:
    """What a rank must send and receive besides in an iteration where this is due: control and audit."""
    flows: dict[Kind, Flow] = {"control": theory.NOTHING, "audit": theory.NOTHING}
    for (kind, _), flow in theory.overhead(due, partition.blocks, rank).items():
        flows[kind] += flow
    return flows
