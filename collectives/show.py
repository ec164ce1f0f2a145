"""A schedule as a table: a row a step, a column a rank."""

from collectives.algorithms import Algorithm
from collectives.schedule import Block, Recv, Send, Step
from collectives.table import counted, format_table
from collectives.well_formed import checked_steps, most_steps


def show(algorithm: Algorithm, world_size: int) -> str:
    """The table of what every rank does in every step.

    ``2>1`` sends block 2 to rank 1, ``0<3`` receives block 0 from rank 3, ``0<3+`` combines it with its own.
    """
    limit = most_steps(world_size, len(algorithm.collective.contributors(world_size)))
    columns = [list(checked_steps(algorithm, rank, world_size, limit)) for rank in range(world_size)]
    num_steps = max(map(len, columns))
    head = ["step", *(f"rank {rank}" for rank in range(world_size))]
    rows = [
        [str(number), *(_cell(steps[number]) if number < len(steps) else "" for steps in columns)]
        for number in range(num_steps)
    ]
    title = f"{algorithm} on {counted(world_size, 'rank')}, {counted(num_steps, 'step')}"
    return f"{title}\n{format_table(head, rows)}"


def _cell(step: Step) -> str:
    return " ".join(_operation(operation) for operation in step)


def _operation(operation: Send | Recv) -> str:
    blocks = ",".join(_name(block) for block in operation.blocks)
    if isinstance(operation, Send):
        return f"{blocks}>{operation.peer}"
    mark = {None: "", "before": "+", "after": "+'"}[operation.combine]
    return f"{blocks}<{operation.peer}{mark}"


def _name(block: Block) -> str:
    return str(block).replace(" ", "")
