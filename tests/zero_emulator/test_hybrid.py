"""Sharding over G ranks and copying over H groups of them: what that keeps and sends, in closed form."""

from typing import Any

import pytest

from zero_emulator.data import Dataset
from zero_emulator.precision import ITEMSIZE, find_precision

PSI = 64 + 72
"""Parameters of two layers, through 8 units; blocks of 2 and of 8 ranks are equal."""


def f(ranks: int) -> float:
    """The part of a buffer that a rank sends in a pass of the ring."""
    return (ranks - 1) / ranks


@pytest.mark.parametrize(("precision", "micro_batches"), [("bf16", 1), ("bf16-fp32grad", 3)])
@pytest.mark.parametrize("world_size", [8])
def test_shards_of_2_on_8_ranks_send_and_keep_their_closed_form_on_every_rank(
    train: Any, even: Dataset, precision: str, micro_batches: int
) -> None:
    outcome = train(
        "zero3", data=even, hidden=(8,), dtype=None, precision=precision, micro_batches=micro_batches,
        shard_size=2, iterations=1, batch_size=24,
    )  # fmt: skip
    policy = find_precision(precision)
    bw, bg = ITEMSIZE[policy.weight], ITEMSIZE[policy.gradient]
    among_sharers = micro_batches * f(2) * (2 * bw + bg) * PSI
    among_twins = 2 * f(4) * bg * PSI / 2
    if precision == "bf16":  # all numbers of 2 bytes
        assert among_sharers + among_twins == 2 * (3 * f(2) * PSI + 2 * f(4) * PSI / 2)
    for report in outcome.reports:
        traffic = report.traffic.by_iteration[1]
        assert sum(traffic.sent.values()) == among_sharers + among_twins
        assert traffic.sent["update", "all_reduce"] == among_twins
        assert sum(report.persistent.values()) == (2 + bg + 4 + 8) / 2 * PSI
