"""Iterations to be timed: what a silenced one leaves out, and what it does not."""

import numpy as np
import pytest

from collectives.transports.base import Transport
from collectives.transports.threads import run_threads
from zero_emulator.theory import PLAIN
from zero_emulator.timed_iterations import Size, TimedIteration

SIZE = Size(width=6, num_layers=2, rows_a_rank=4)


@pytest.mark.parametrize("strategy", PLAIN)
def test_a_silent_iteration_still_tells_and_checks_versions(strategy: str) -> None:
    """Nothing is patched out: ranks hear each other's versions, or the second iteration would not begin."""

    def body(transport: Transport) -> tuple[list[int], float, float]:
        iteration = TimedIteration(strategy, SIZE, transport, silent=True)
        x = np.ones((2 * SIZE.rows_a_rank, SIZE.width), np.float32)
        for _ in range(2):
            iteration(x, np.zeros(len(x), np.int64))
        _, updated = iteration.waited_and_updated()
        return iteration.strategy.versions.told[0].ravel().tolist(), updated, iteration.ledger.sent("control")

    for told, updated, control in run_threads(2, body):
        assert told == [2] * 4
        assert updated > 0
        assert control == 2 * 8  # a version of each layer to the other rank, and no call check
