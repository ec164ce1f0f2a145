"""A schedule as a table: a row a step, a column a rank."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from collectives.algorithms import Algorithm, check_limit
from collectives.schedule import Place, Recv, Schedule, ScheduleError, Send, Step, names
from collectives.table import counted, format_table
from collectives.well_formed import checked_steps, most_steps

MOST_RANKS, MOST_STEPS = 8, 12
"""In the table of a fault: if there are more, it has those that the fault is about, and what led there."""


def show(algorithm: Algorithm, world_size: int) -> str:
    """The table of what every rank does in every step.

    ``2>1`` sends block 2 to rank 1, ``0<3`` receives block 0 from rank 3, ``0<3+`` combines it with its own,
    standing before it, ``0<3+'`` after it.
    """
    check_limit(algorithm, world_size)
    columns = [list(map(_cell, _steps(algorithm, rank, world_size))) for rank in range(world_size)]
    num_steps = max(map(len, columns))
    title = f"{algorithm} on {counted(world_size, 'rank')}, {counted(num_steps, 'step')}"
    return f"{title}\n{_table(dict(enumerate(columns)), range(num_steps))}"


def show_fault(algorithm: Algorithm, world_size: int, places: Sequence[Place]) -> str:
    """The table of a schedule up to where it breaks, with the places of the fault in brackets.

    ``end`` comes after a rank's last step, ``?`` is what is no step.
    """
    last = max(step for _, step in places)
    ranks = range(world_size) if world_size <= MOST_RANKS else _concerned(algorithm, world_size, places)
    columns = {rank: _cells_until(algorithm, rank, world_size, last) for rank in ranks}
    for rank, step in places:
        if rank in columns:
            columns[rank][step] = f"[{columns[rank][step]}]"
    return _table(columns, range(max(0, last + 1 - MOST_STEPS), last + 1))


def _concerned(algorithm: Algorithm, world_size: int, places: Sequence[Place]) -> list[int]:
    """The ranks of the places, and those that they then talk to, as far as there is room for them."""
    peers: list[int] = []
    for rank, number in places[:MOST_RANKS]:
        with suppress(ScheduleError):  # of a step that is none
            for step in islice(_steps(algorithm, rank, world_size), number, number + 1):
                peers += (operation.peer for operation in step)
    return sorted(list(dict.fromkeys([*(rank for rank, _ in places), *peers]))[:MOST_RANKS])


def _cells_until(algorithm: Algorithm, rank: int, world_size: int, last: int) -> list[str]:
    """The cells of a rank's steps up to number ``last``, with what comes after them if that is near."""
    cells: list[str] = []
    try:
        for step in islice(_steps(algorithm, rank, world_size), last + 1):
            cells.append(_cell(step))
    except ScheduleError:
        return [*cells, "?"]
    return [*cells, "end"]


def _steps(algorithm: Algorithm, rank: int, world_size: int) -> Schedule:
    limit = most_steps(world_size, len(algorithm.promise.contributors(world_size)))
    return checked_steps(algorithm, rank, world_size, limit)


def _table(columns: dict[int, list[str]], steps: range) -> str:
    head = ["step", *(f"rank {rank}" for rank in columns)]
    rows = [
        [str(step), *(cells[step] if step < len(cells) else "" for cells in columns.values())]
        for step in steps
    ]
    return format_table(head, rows)


def _cell(step: Step) -> str:
    return " ".join(_operation(operation) for operation in step)


def _operation(operation: Send | Recv) -> str:
    blocks = names(operation.blocks, ",").replace(" ", "")
    if isinstance(operation, Send):
        return f"{blocks}>{operation.peer}"
    mark = {None: "", "before": "+", "after": "+'"}[operation.combine]
    return f"{blocks}<{operation.peer}{mark}"
