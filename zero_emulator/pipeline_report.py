"""What a person reads of a pipeline document: pure functions of it."""

from collections.abc import Sequence

from collectives.table import counted, format_table
from zero_emulator.documents import Json

GOES_ON = "|"
"""In a unit in which an action has started before."""


def describe_pipeline(document: Json, messages: bool) -> str:
    """The timetable, a row a unit and a column a stage, over what each stage waits, holds and reduces."""
    columns = [_column(stage, document, messages) for stage in document["by_stage"]]
    rows = [[str(unit), *cells] for unit, cells in enumerate(zip(*columns, strict=True))]
    table = format_table(["unit", *_heads(document)], rows, right=[0])
    return "\n".join([_asked(document), table, "", _figures(document), *_notes(messages)])


def describe_stage(document: Json, stage: int) -> str:
    """The order of one stage, an action a line, each with the unit in which it starts."""
    words = {
        "forward": "run chunk {chunk} forward on micro-batch {micro_batch}",
        "backward": "run chunk {chunk} backward on micro-batch {micro_batch}",
        "receive": "receive the {what} of micro-batch {micro_batch} for chunk {chunk} from stage {peer}",
        "send": "send the {what} of micro-batch {micro_batch} for chunk {chunk} to stage {peer}",
    }
    rows = [
        [str(action["start"]), action["cell"], words[action["kind"]].format(**action)]
        for action in document["by_stage"][stage]["actions"]
    ]
    table = format_table(["unit", f"stage {stage}", ""], rows, right=[0])
    return "\n".join([_asked(document), table])


def _asked(document: Json) -> str:
    return (
        f"{document['schedule']} on {counted(document['stages'], 'stage')} of "
        f"{counted(document['chunks'], 'chunk')}, "
        f"{counted(document['micro_batches'], 'micro-batch', 'micro-batches')}, "
        f"{counted(document['units'], 'unit')}: a forward takes {document['forward_units']}, "
        f"a backward {document['backward_units']}, a message none"
    )


def _heads(document: Json) -> list[str]:
    return [f"stage {stage['stage']}" for stage in document["by_stage"]]


def _column(stage: Json, document: Json, messages: bool) -> list[str]:
    """What the stage does in each unit; messages stand before and after what they are for."""
    cells = [""] * document["units"]
    incoming: list[str] = []
    unit = 0
    for action in stage["actions"]:
        kind = action["kind"]
        if kind in ("forward", "backward"):
            unit, length = action["start"], document[f"{kind}_units"]
            cells[unit : unit + length] = [" ".join([*incoming, action["cell"]])] + [GOES_ON] * (length - 1)
            incoming = []
        elif messages and kind == "receive":
            incoming.append(action["cell"])
        elif messages:
            cells[unit] += f" {action['cell']}"
    return cells


def _figures(document: Json) -> str:
    rows: Sequence[tuple[str, list[str]]] = [
        ("bubble", [f"{stage['bubble']:.1%}" for stage in document["by_stage"]]),
        ("activations held", [str(stage["activations_held"]) for stage in document["by_stage"]]),
        ("runs of backwards", [str(len(stage["runs"])) for stage in document["by_stage"]]),
    ]
    right = range(1, document["stages"] + 1)
    return format_table(["", *_heads(document)], [[name, *cells] for name, cells in rows], right=right)


def _notes(messages: bool) -> list[str]:
    notes = [
        "F0.1, B0.1: forward and backward of chunk 0 on micro-batch 1; | goes on",
        "bubble: the share of all units in which a stage is idle",
        "activations held: of forwards whose backward is still to come, the most at once",
        "runs of backwards: of one chunk, following one another; pipeline_zero2 reduces the sum of each",
    ]
    if messages:
        notes += [
            "A1.0>2: sends, when made, the activation of micro-batch 0 for chunk 1 to stage 2",
            "G0.0<1: receives the gradient of micro-batch 0 for chunk 0 from stage 1",
        ]
    return notes
