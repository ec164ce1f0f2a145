"""The orders of a pipeline and what they cost, as one JSON document."""

from collections.abc import Sequence

from zero_emulator.documents import Json
from zero_emulator.pipeline import (
    Action,
    Backward,
    Forward,
    Order,
    Receive,
    most_held,
    orders,
    runs,
    timetable,
)
from zero_emulator.pipeline.actions import cell

PIPELINE_SCHEMA = "zero-emulator/pipeline/1"
FORWARD, BACKWARD = 1, 2
"""Units of time: where a forward multiplies once, a backward does twice, for inputs and for weights."""


def pipeline_document(schedule: str, stages: int, chunks: int, micro_batches: int) -> Json:
    """Every action of every stage with its start, and what each stage waits, holds and reduces.

    ValueError for what the schedule cannot do.
    """
    made = orders(schedule, stages, chunks, micro_batches)
    table = timetable(made, FORWARD, BACKWARD)
    return {
        "schema": PIPELINE_SCHEMA,
        "schedule": schedule,
        "stages": stages,
        "chunks": chunks,
        "micro_batches": micro_batches,
        "forward_units": FORWARD,
        "backward_units": BACKWARD,
        "units": table.units,
        "by_stage": [
            _stage(stage, made[stage], table.starts[stage], table.bubbles[stage]) for stage in range(stages)
        ],
    }


def _stage(stage: int, order: Order, starts: Sequence[int], bubble: float) -> Json:
    return {
        "stage": stage,
        "bubble": bubble,
        "activations_held": most_held(order),
        "runs": [{"chunk": chunk, "micro_batches": list(batches)} for chunk, batches in runs(order)],
        "actions": [_action(action, start) for action, start in zip(order, starts, strict=True)],
    }


def _action(action: Action, start: int) -> Json:
    return {"start": start, "kind": _kind(action), "cell": cell(action), **action._asdict()}


def _kind(action: Action) -> str:
    if isinstance(action, Forward):
        return "forward"
    if isinstance(action, Backward):
        return "backward"
    return "receive" if isinstance(action, Receive) else "send"
