"""Whether a run keeps its promises: every broken one in words, with the numbers."""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import get_args

from collectives.ledger import Kind
from zero_emulator.audit import all_equal
from zero_emulator.config import RunConfig
from zero_emulator.run import Outcome
from zero_emulator.strategies import STRATEGIES
from zero_emulator.theory import Flow, Sizes, iteration_traffic, iteration_uses, persistent_bytes


def expected_traffic(config: RunConfig, layers: Sequence[Sizes], rank: int) -> dict[tuple[str, str], Flow]:
    """What a rank of this run must send and receive in every iteration, by (phase, collective)."""
    uses = iteration_uses(config.strategy, config.micro_batches, config.keep_views, config.policy)
    return iteration_traffic(uses, layers, rank)


def expected_kept(config: RunConfig, layers: Sequence[Sizes], rank: int) -> dict[str, int]:
    """What a rank of this run must keep between iterations, in bytes by kind."""
    num_moments = len(config.make_optimizer().new_state(0, "float32"))
    stage = STRATEGIES[config.strategy].stage
    return persistent_bytes(stage, layers, rank, config.policy, num_moments)


def faults(config: RunConfig, layers: Sequence[Sizes], outcome: Outcome) -> list[str]:
    """What is wrong with a run; nothing if it passes."""
    return [
        *_loss_faults(outcome),
        *_traffic_faults(config, layers, outcome),
        *_pairing_faults(outcome),
        *_kept_faults(config, layers, outcome),
        *(
            f"iteration {iteration}: the ranks hold different parameters, digests {', '.join(digests)}"
            for iteration, digests in outcome.digests.items()
            if not all_equal(digests)
        ),
    ]


def _traffic_faults(config: RunConfig, layers: Sequence[Sizes], outcome: Outcome) -> Iterator[str]:
    for rank, report in enumerate(outcome.reports):
        expected = expected_traffic(config, layers, rank)
        for iteration in range(1, config.iterations + 1):
            counted = report.traffic.by_iteration[iteration]
            if not counted.equals(expected):
                flows = {key: Flow(counted.sent[key], counted.received[key]) for key in counted.calls}
                where = f"iteration {iteration}, rank {rank}"
                yield f"{where}: counted {_flows(flows)}, expected {_flows(expected)} (bytes sent/received)"


def _pairing_faults(outcome: Outcome) -> Iterator[str]:
    """What one end of a wire counted and the other did not, of any kind of traffic."""
    traffic = [report.traffic for report in outcome.reports]
    for sender, receiver in permutations(range(len(traffic)), 2):
        for kind in get_args(Kind):
            sent = traffic[sender].sent_to[receiver, kind]
            received = traffic[receiver].received_from[sender, kind]
            if sent != received:
                yield (
                    f"rank {sender} counted {sent} {kind} bytes sent to rank {receiver}, "
                    f"which counted {received} received"
                )


def _loss_faults(outcome: Outcome) -> Iterator[str]:
    if outcome.first_bad_loss is not None:
        yield f"iteration {outcome.first_bad_loss}: the loss is not finite: lower --lr, or --clip"


def _flows(flows: dict[tuple[str, str], Flow]) -> str:
    """Bytes sent and received, flow by flow."""
    parts = (
        f"{phase} {collective} {flow.sent}/{flow.received}" for (phase, collective), flow in flows.items()
    )
    return " and ".join(parts) or "nothing"


def _kept_faults(config: RunConfig, layers: Sequence[Sizes], outcome: Outcome) -> Iterator[str]:
    for rank, report in enumerate(outcome.reports):
        expected = expected_kept(config, layers, rank)
        if report.kept != expected:
            yield f"rank {rank} keeps {_sizes(report.kept)}, expected {_sizes(expected)}"


def _sizes(kept: dict[str, int]) -> str:
    return ", ".join(f"{num_bytes} bytes of {kind}" for kind, num_bytes in kept.items())
