"""Whether what an algorithm yields are steps: a ScheduleError in words, not a TypeError from deep inside."""

from collections.abc import Iterator
from operator import index
from typing import Any

from collectives.algorithms import Algorithm
from collectives.schedule import Recv, Schedule, ScheduleError, Send

OPERATIONS = (Send, Recv)
SIDES = (None, "before", "after")


def most_steps(world_size: int, num_blocks: int) -> int:
    """The steps after which a schedule counts as one that never ends.

    Twice those of a rank that does everything alone and one by one: takes every block from every rank, and
    gives every block to every rank.
    """
    return 4 * world_size * max(1, num_blocks)


def checked_steps(algorithm: Algorithm, rank: int, world_size: int, limit: int) -> Schedule:
    """The steps of one rank, each well formed: operations in a tuple, known words, other ranks as peers.

    Raises ScheduleError, also for what the algorithm itself raises, and for more than ``limit`` steps. Even
    a SystemExit: the other ranks are to hear of it.
    """
    number = 0
    try:
        schedule = _schedule(algorithm, rank, world_size)
        if not isinstance(schedule, Iterator):
            raise ScheduleError(f"has a {_type(schedule)} for a schedule: yield the steps one by one")
        for step in schedule:
            if number == limit:
                raise ScheduleError(
                    f"goes on after {limit} steps, twice what the slowest schedule would need"
                )
            if not _is_plain(step, rank, world_size):
                _check_step(step, rank, world_size)
            yield step
            number += 1
    except (Exception, SystemExit) as error:
        known = isinstance(error, ScheduleError)
        fault = str(error) if known else f"raises {type(error).__name__}: {' '.join(str(error).split())}"
        where = f"{algorithm} on {world_size} ranks, step {number}"
        raise ScheduleError(f"{where}: rank {rank} {fault}", (rank, number)) from (None if known else error)


def _schedule(algorithm: Algorithm, rank: int, world_size: int) -> Any:
    try:
        return algorithm.steps(rank, world_size)
    except TypeError as error:  # perhaps only that it takes other arguments
        root = "" if algorithm.collective.root is None else ", root"
        message = f"raises TypeError: {error}: a schedule is a function of (rank, world_size{root})"
        raise ScheduleError(message) from error


def _is_plain(step: Any, rank: int, world_size: int) -> bool:
    """Whether the step is well formed beyond doubt, as nearly all are: quick, for a proof asks often."""
    if type(step) is not tuple:
        return False
    for operation in step:
        if type(operation) is Recv:
            if operation.combine not in SIDES:
                return False
        elif type(operation) is not Send:
            return False
        peer, blocks = operation[0], operation[1]
        if type(peer) is not int or not 0 <= peer < world_size or peer == rank or type(blocks) is not tuple:
            return False
        try:
            hash(blocks)
        except TypeError:
            return False
    return True


def _check_step(step: Any, rank: int, world_size: int) -> None:
    if isinstance(step, OPERATIONS):
        raise ScheduleError(f"yields a bare {_type(step)}: a step is a tuple of operations, so add a comma")
    if not isinstance(step, tuple):
        raise ScheduleError(f"yields a {_type(step)} for a step: a tuple of Send and Recv is needed")
    for operation in step:
        if not isinstance(operation, OPERATIONS):
            raise ScheduleError(f"has a {_type(operation)} in its step: a Send or a Recv is needed")
        _check_operation(operation, rank, world_size)


def _check_operation(operation: Send | Recv, rank: int, world_size: int) -> None:
    peer, blocks = operation.peer, operation.blocks
    if not hasattr(peer, "__index__") or not 0 <= index(peer) < world_size or peer == rank:
        raise ScheduleError(f"has peer {peer!r}: another rank below {world_size} is needed")
    if not isinstance(blocks, tuple):
        raise ScheduleError(f"names its blocks by {blocks!r}: a tuple is needed, such as (3,)")
    try:
        hash(blocks)
    except TypeError:
        raise ScheduleError(f"names blocks {blocks!r}, which have no hash: take numbers or tuples") from None
    if isinstance(operation, Recv) and operation.combine not in SIDES:
        raise ScheduleError(f"combines {operation.combine!r}: it is 'before', 'after' or None")


def _type(thing: object) -> str:
    return type(thing).__name__
