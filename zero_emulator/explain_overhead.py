"""What ranks send besides training, iteration by iteration, and why."""

from collections.abc import Mapping

from collectives.ledger import Kind
from zero_emulator.expected_traffic import due_besides, first_update, training_uses
from zero_emulator.recorded import Recorded
from zero_emulator.theory import CHECK_BYTES, DIGEST_BYTES, VERSION_BYTES, Due, Flow, num_calls, overhead

Overhead = Mapping[tuple[Kind, str], Flow]


def recorded_due(record: Recorded) -> tuple[Due, ...]:
    """What fell due in each iteration."""
    config, matrices = record.config, record.matrices
    training_calls = num_calls(training_uses(config), len(record.layers))
    skipped = [one.iteration for one in record.iterations if one.skipped]
    updated_first = first_update(len(record.iterations), skipped)
    return tuple(
        due_besides(
            config,
            training_calls,
            matrices,
            one.iteration,
            skipped=one.skipped,
            gradient_audit=record.gradient_audit and one.iteration == updated_first,
        )
        for one in record.iterations
    )


def overheads(record: Recorded) -> tuple[tuple[Overhead, ...], ...]:
    """Bytes sent and received besides training, by iteration, by rank, and by kind and purpose."""
    ranks, in_order = range(record.world_size), recorded_due(record)
    of = {one: tuple(overhead(one, record.block_sizes, rank) for rank in ranks) for one in set(in_order)}
    return tuple(of[one] for one in in_order)


def reasons(record: Recorded, iteration: int) -> dict[str, str]:
    """Why each purpose sends what it does in one iteration."""
    num_layers, strategy = len(record.layers), record.config.strategy
    due = recorded_due(record)[iteration - 1]
    num_calls = due.calls(num_layers) + due.meetings
    norm = f"--clip {record.config.clip}: the global norm is one number in an all_reduce"
    if record.iterations[iteration - 1].skipped:
        norm = "the vote said no, so there was nothing to clip"
    check, version, digest = CHECK_BYTES, VERSION_BYTES, DIGEST_BYTES
    return {
        "call checks": f"all ranks compare their calls of {num_calls} collectives, {check} bytes a call",
        "fetch checks": f"ranks that share a matrix compare their calls of its fetch, {check} bytes a call",
        "versions": f"all ranks tell the versions of {num_layers} shards, {version} bytes a version",
        "vote": "are all gradients finite? one number in an all_reduce",
        "norm": norm,
        "digest": f"all ranks tell the digest of the weights that they used, {digest} bytes",
        "weights": f"after the last iteration {strategy} gathers all layers once more, to be audited",
        "gradients": "those of the first update are gathered, to be held against serial training",
    }
