"""What ranks with experts must send each other: samples to their experts and back, and counts of them."""

from collections.abc import Mapping

from collectives.ledger import Kind
from zero_emulator import theory
from zero_emulator.config import RunConfig
from zero_emulator.experts import NUM_EXCHANGES, Experts, Router, Routing, exchanged_rows, travel_table
from zero_emulator.partition import Partition
from zero_emulator.precision import ITEMSIZE
from zero_emulator.theory import NOTHING, Flow

COUNT_BYTES = 8
"""Bytes of the number of samples that chose an expert."""


def expected_exchanges(
    config: RunConfig,
    partition: Partition,
    rank: int,
    routings: Mapping[tuple[int, int], Routing],
) -> dict[tuple[str, str], Flow]:
    """Bytes that a rank sends and receives in an iteration, given who was routed where.

    A sample goes to its experts and back, its gradient to them and back: where those are another rank's.
    """
    grid, flow = partition.grid, NOTHING
    sharing, position = grid.expert_peers(rank), grid.expert_position(rank)
    for held in partition.share(rank).held:
        if not isinstance(held.plan, Experts):
            continue
        for micro_batch in range(config.micro_batches):
            kept = routings[held.layer - 1, micro_batch].kept  # the router stands before its experts
            table = travel_table(kept[[grid.stage_position(peer) for peer in sharing]])
            rows = Flow(*exchanged_rows(table, position))
            way_back = Flow(rows.received, rows.sent)
            flow += (rows + way_back).times(held.plan.width * ITEMSIZE[config.policy.compute])
    if flow == NOTHING:
        return {}
    return {("forward", "all_to_all"): flow, ("backward", "all_to_all"): flow}


def expected_counts(config: RunConfig, partition: Partition, rank: int) -> dict[tuple[Kind, str], Flow]:
    """Bytes by purpose: routers and experts gather their counts from all; every call is checked."""
    grid = partition.grid
    copies, position = grid.copies(rank, expert=False), grid.stage_position(rank)
    counts = checks = NOTHING
    for held in partition.share(rank).held:
        if isinstance(held.plan, Router | Experts):
            sizes = (held.plan.num_experts,) * len(copies)
            counts += theory.ring_all_gather(sizes, position).times(COUNT_BYTES * config.micro_batches)
            checks += theory.call_checks(config.micro_batches, len(copies), position)
        if isinstance(held.plan, Experts):
            exchanges = NUM_EXCHANGES * config.micro_batches
            checks += theory.call_checks(exchanges, grid.expert, grid.expert_position(rank))
    return {("control", "counts"): counts, ("control", "call checks"): checks}
