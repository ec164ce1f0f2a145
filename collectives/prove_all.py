"""Proofs of many algorithms on many world sizes, on all cores of this machine."""

import multiprocessing
import os
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from collectives.algorithms import Algorithm
from collectives.schedule import Place, ScheduleError
from collectives.verify import verify

Task = tuple[Algorithm, int]
"""An algorithm, at its root if it has one, and a world size."""

WORTH_A_PROCESS = 100_000
"""Of world sizes squared, about as many steps: half a second on one core."""


class Outcome(NamedTuple):
    """The steps and the blocks sent of the busiest rank; or a counterexample, and where it is."""

    num_steps: int
    num_blocks: int
    fault: str | None = None
    places: tuple[Place, ...] = ()


def prove_all(tasks: Sequence[Task]) -> Generator[Outcome, None, None]:
    """What came of each, in order, as soon as it is known.

    A schedule is a generator, which no process can send to another: so they are forked, with the tasks.
    """
    num_processes = min(len(tasks), os.cpu_count() or 1)
    effort = sum(world_size**2 for _, world_size in tasks)
    can_fork = "fork" in multiprocessing.get_all_start_methods()
    if num_processes == 1 or effort < WORTH_A_PROCESS or not can_fork:
        yield from map(prove, tasks)
        return
    _tasks[:] = tasks
    pool = ProcessPoolExecutor(num_processes, mp_context=multiprocessing.get_context("fork"))
    try:
        yield from pool.map(_prove_number, range(len(tasks)))
    finally:
        pool.shutdown(cancel_futures=True)


def prove(task: Task) -> Outcome:
    """What came of one."""
    algorithm, world_size = task
    try:
        proof = verify(algorithm, world_size)
    except ScheduleError as error:
        return Outcome(0, 0, str(error), error.places)
    return Outcome(max(proof.steps), max(map(len, proof.sent)))


_tasks: list[Task] = []
"""Those of this process when it was forked."""


def _prove_number(number: int) -> Outcome:
    return prove(_tasks[number])
