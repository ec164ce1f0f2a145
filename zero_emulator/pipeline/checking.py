"""Whether the orders of all stages train the model, and never wait for each other in vain."""

from collections.abc import Sequence

from collectives.table import counted
from zero_emulator.pipeline.actions import (
    Action,
    Backward,
    Forward,
    Order,
    OrderError,
    Send,
    cell,
    in_words,
    source_of,
)
from zero_emulator.pipeline.stage_so_far import StageSoFar
from zero_emulator.pipeline.walking import walk


def check_orders(orders: Sequence[Order], schedule: str = "orders") -> None:
    """Nothing, if the orders are right; the OrderError names the ``schedule`` and the first fault.

    Right is: every chunk runs once forward and once backward on every micro-batch, on its own stage, backward
    in rising order of micro-batches; each has what it needs by then; every message is received, by the stage
    that needs it, in the order sent; nobody waits for ever.
    """
    try:
        _check(orders)
    except OrderError as error:
        raise OrderError(f"{schedule}, {counted(len(orders), 'stage')}: {error}") from None


def _check(orders: Sequence[Order]) -> None:
    computed = [action for order in orders for action in order if isinstance(action, Forward | Backward)]
    if not computed:
        raise OrderError("no stage runs a chunk: each has to run one forward and backward")
    rounds = max(action.chunk for action in computed) // len(orders) + 1
    num_chunks, micro_batches = rounds * len(orders), max(action.micro_batch for action in computed) + 1
    for stage, order in enumerate(orders):
        for action in order:
            _check_place(action, stage, len(orders), num_chunks)
    states = [StageSoFar(stage, num_chunks) for stage in range(len(orders))]
    for stage, place in walk(orders):
        states[stage].do(orders[stage][place])
    for state in states:
        state.check_end(range(state.stage, num_chunks, len(orders)), micro_batches)


def _check_place(action: Action, stage: int, stages: int, num_chunks: int) -> None:
    """Whether it is this stage's to do."""
    where = f"stage {stage} has {cell(action)}, but"
    if min(action.chunk, action.micro_batch) < 0:
        raise OrderError(f"{where} chunks and micro-batches count from 0")
    if not isinstance(action, Send) and action.chunk % stages != stage:
        raise OrderError(f"{where} chunk {action.chunk} is on stage {action.chunk % stages}")
    if isinstance(action, Forward | Backward):
        return
    source = source_of(action)
    if not (0 <= source < num_chunks and action.chunk < num_chunks):
        raise OrderError(f"{where} it is between chunks {source} and {action.chunk} of 0 to {num_chunks - 1}")
    sender, receiver = source % stages, action.chunk % stages
    if sender == receiver:
        raise OrderError(f"{where} both chunks are on stage {stage}: drop the message")
    ends = (stage, action.peer) if isinstance(action, Send) else (action.peer, stage)
    if ends != (sender, receiver):
        raise OrderError(f"{where} {in_words(action)} goes from stage {sender} to stage {receiver}")
