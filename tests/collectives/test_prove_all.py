"""Proofs on all cores: the same as on one, in order, and a counterexample ends them."""

import multiprocessing
import os
from typing import Any

import pytest

from collectives import prove_all as module
from collectives.algorithms import ALGORITHMS, Algorithm
from collectives.promises import ALL_GATHER
from collectives.prove_all import Outcome, Task, prove, prove_all
from collectives.schedule import Schedule

NAMES = ("ring", "bruck", "pat")


def right_but_on_five(rank: int, world_size: int) -> Schedule:
    steps = tuple(ALGORITHMS["ring", "all_gather"].schedule(rank, world_size))
    return iter(steps[:-1] if world_size == 5 and rank == 2 else steps)


BROKEN = Algorithm("broken", ALL_GATHER, right_but_on_five)
TASKS: list[Task] = [(ALGORITHMS[name, "all_gather"], size) for name in NAMES for size in range(1, 9)]


@pytest.fixture
def in_processes(monkeypatch: Any) -> list[int]:
    """The processes of the pool, however little there is to do."""
    monkeypatch.setattr(module, "WORTH_A_PROCESS", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    started: list[int] = []
    pool = module.ProcessPoolExecutor

    def noted(number: int, **how: Any) -> Any:
        started.append(number)
        return pool(number, **how)

    monkeypatch.setattr(module, "ProcessPoolExecutor", noted)
    return started


def test_proofs_in_processes_are_those_of_one_process_in_the_same_order(in_processes: list[int]) -> None:
    outcomes = list(prove_all(TASKS))
    assert outcomes == list(map(prove, TASKS))
    assert outcomes[7] == Outcome(num_steps=7, num_blocks=7)
    assert in_processes == [2]


def test_a_counterexample_comes_back_with_its_place_and_leaves_no_process(in_processes: list[int]) -> None:
    outcomes = prove_all([(BROKEN, size) for size in range(4, 40)])
    assert next(outcomes).fault is None
    refuted = next(outcomes)
    assert refuted.fault is not None
    assert refuted.fault.startswith("broken all_gather on 5 ranks")
    assert (2, 3) in refuted.places
    outcomes.close()
    assert multiprocessing.active_children() == []


def test_what_takes_a_moment_is_proved_without_a_process(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "ProcessPoolExecutor", lambda *_, **__: pytest.fail("a process is started"))
    assert list(prove_all(TASKS)) == list(map(prove, TASKS))
