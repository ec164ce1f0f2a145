"""tracemalloc in each process of a real run: it agrees with that rank's meter."""

import pytest

from collectives.communicator import Communicator
from zero_emulator.config import RunConfig
from zero_emulator.expected_memory import expected_peak, expected_persistent


@pytest.mark.parametrize(("prefetch", "keep_views"), [(0, "none"), (2, "none"), (1, "all")])
@pytest.mark.parametrize("world_size", [2])  # each rank is a process that computes: more are no other case
def test_tracemalloc_agrees_within_three_percent(run_ranks, traced, wide, prefetch: int, keep_views) -> None:
    config = RunConfig(
        strategy="zero3", hidden=(1024,) * 3, batch_size=32,
        prefetch=prefetch, keep_views=keep_views,
    )  # fmt: skip

    def body(comm: Communicator) -> None:
        found = traced(comm.transport, Communicator, config, wide)
        partition = config.partition(wide, comm.world_size)
        persistent = sum(expected_persistent(config, partition, comm.rank).values())
        assert found.peak == expected_peak(config, partition, comm.rank)
        assert found.traced_persistent == pytest.approx(persistent, rel=0.03)
        assert found.traced_peak == pytest.approx(found.peak.total, rel=0.03)

    run_ranks(body)
