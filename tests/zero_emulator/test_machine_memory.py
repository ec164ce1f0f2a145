"""What a run needs in memory at the least, and that more than there is gets refused."""

import tracemalloc
from typing import Any

import pytest

from collectives.environment import machine_bytes
from collectives.transports.threads import run_threads
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.machine_memory import REPORTED_BYTES, check_memory, least_bytes
from zero_emulator.run import run
from zero_emulator.theory import PLAIN

WIDE = {"hidden": (500, 300), "iterations": 2, "batch_size": 40}


@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize("num_ranks", [1, 3])
@pytest.mark.parametrize("settings", [WIDE, WIDE | {"precision": "bf16"}])
def test_a_run_needs_what_is_foreseen_at_least(
    toy: Dataset, strategy: str, num_ranks: int, settings: dict[str, Any]
) -> None:
    config = RunConfig(strategy=strategy, **settings)
    _, peak = memory_of(config, toy, num_ranks)
    needs = least_bytes(config, toy, num_ranks)
    assert num_ranks * max(needs.values()) <= peak


def test_a_report_grows_by_what_is_foreseen_at_least(toy: Dataset) -> None:
    few, many = (
        RunConfig(strategy="ddp", hidden=(2,), batch_size=4, iterations=iterations, audit_every=100)
        for iterations in (5, 25)
    )
    grown = memory_of(many, toy, 2)[0] - memory_of(few, toy, 2)[0]
    assert grown >= 2 * 20 * REPORTED_BYTES  # threads have the same reports, once


def memory_of(config: RunConfig, dataset: Dataset, num_ranks: int) -> tuple[int, int]:
    """Bytes in use after a run whose outcome is kept, and the most during it."""
    tracemalloc.start()
    try:
        outcomes = run_threads(num_ranks, lambda transport: run(config, dataset, transport))
        assert len(outcomes) == num_ranks
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def test_a_model_is_foreseen_to_need_its_state_and_its_weights_once_more(toy: Dataset) -> None:
    needs = least_bytes(RunConfig(strategy="zero3", hidden=(4,), batch_size=12, iterations=7), toy, 2)
    num_params = (5 * 4 + 4) + (4 * 3 + 3)
    persistent = 16 * (24 + 15) // 2  # half of each layer
    assert needs == {
        "--hidden 4": persistent + 4 * num_params,
        "--batch-size 12": persistent + 4 * 6 * (4 + 3),
        "--data toy": persistent + 4 * 40 * 5,
        "--iterations 7": 7 * 1000,
    }


def test_more_than_the_machine_has_is_refused_and_less_is_not(toy: Dataset, monkeypatch: Any) -> None:
    config = RunConfig(strategy="ddp", hidden=(10**5, 10**4))  # 1.0006 · 10^9 parameters of 16 + 4 bytes
    monkeypatch.setattr("zero_emulator.machine_memory.machine_bytes", lambda: 45 * 10**9)
    check_memory(config, toy, 2, ranks_here=2)
    with pytest.raises(ValueError, match="--hidden 100000,10000 takes 61 GB of memory or more for 3 ranks"):
        check_memory(config, toy, 3, ranks_here=3)
    check_memory(config, toy, 3, ranks_here=2)


def test_the_machine_has_some_memory() -> None:
    assert 2**27 < machine_bytes() < 2**50


@pytest.mark.parametrize(("inside", "named"), [(None, ""), (10**9, " and --expert-hidden 1000000000")])
def test_experts_that_no_machine_could_hold_are_refused_by_name(
    toy: Dataset, inside: int | None, named: str
) -> None:
    config = RunConfig(hidden=(10**6,) if inside is None else (4,), experts=8, expert_hidden=inside)
    with pytest.raises(ValueError, match=rf"^--hidden \d+ with --experts 8{named} take"):
        check_memory(config, toy, 2, ranks_here=2)
