"""The `zero-emulator show-pipeline` command: what it prints, and what it refuses in one line."""

import json
from typing import Any

import pytest

TIMETABLE = """\
1f1b on 2 stages of 1 chunk, 2 micro-batches, 9 units: a forward takes 1, a backward 2, a message none
unit  stage 0  stage 1
   0  F0.0
   1  F0.1     F1.0
   2           B1.0
   3           |
   4  B0.0     F1.1
   5  |        B1.1
   6           |
   7  B0.1
   8  |

                   stage 0  stage 1
bubble               33.3%    33.3%
activations held         2        1
runs of backwards        1        1
F0.1, B0.1: forward and backward of chunk 0 on micro-batch 1; | goes on
bubble: the share of all units in which a stage is idle
activations held: of forwards whose backward is still to come, the most at once
runs of backwards: of one chunk, following one another; pipeline_zero2 reduces the sum of each
"""

OF_A_STAGE = """\
unit  stage 1
   1  A1.0<0   receive the activation of micro-batch 0 for chunk 1 from stage 0
   1  F1.0     run chunk 1 forward on micro-batch 0
   2  B1.0     run chunk 1 backward on micro-batch 0
   4  G0.0>0   send the gradient of micro-batch 0 for chunk 0 to stage 0
"""


@pytest.fixture
def show(command: Any) -> Any:
    def show(arguments: str) -> tuple[int, str, str]:
        result: tuple[int, str, str] = command("show-pipeline", *arguments.split())
        return result

    return show


def test_the_timetable_has_a_row_a_unit_and_a_column_a_stage(show: Any) -> None:
    assert show("--pipeline 2 --chunks 1 --micro-batches 2 --schedule 1f1b") == (0, TIMETABLE, "")


def test_messages_stand_before_and_after_what_they_are_for(show: Any) -> None:
    code, out, _ = show("--pipeline 2 --micro-batches 1 --messages")
    assert code == 0
    assert [line.split("  ", 1)[1].strip() for line in out.splitlines()[2:6]] == [
        "0  F0.0 A1.0>1",
        "1               A1.0<0 F1.0",
        "2               B1.0 G0.0>0",
        "3               |",
    ]
    assert "A1.0>2: sends, when made, the activation of micro-batch 0 for chunk 1 to stage 2" in out


def test_a_stage_alone_is_a_list_of_all_that_it_does(show: Any) -> None:
    code, out, _ = show("--pipeline 2 --micro-batches 1 --stage 1")
    assert (code, out.split("\n", 1)[1]) == (0, OF_A_STAGE)


def test_json_is_one_document_with_every_action_and_its_start(show: Any) -> None:
    code, out, _ = show("--pipeline 2 --chunks 2 --micro-batches 4 --json")
    document = json.loads(out)
    assert (code, document["schema"], document["units"]) == (0, "zero-emulator/pipeline/1", 27)
    first, last = document["by_stage"]
    assert first["actions"][:2] == [
        {"start": 0, "kind": "forward", "cell": "F0.0", "chunk": 0, "micro_batch": 0},
        {
            "start": 1, "kind": "send", "cell": "A1.0>1",
            "what": "activation", "chunk": 1, "micro_batch": 0, "peer": 1,
        },
    ]  # fmt: skip
    assert last["actions"][0]["kind"] == "receive"
    assert (first["activations_held"], last["activations_held"]) == (5, 3)
    assert first["bubble"] == pytest.approx(1 / 9)
    assert first["runs"][:2] == [{"chunk": 2, "micro_batches": [0, 1]}, {"chunk": 0, "micro_batches": [0, 1]}]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--pipeline 0", "'--pipeline': 0 is not in the range x>=1"),
        ("--chunks 0", "'--chunks': 0 is not in the range x>=1"),
        ("--micro-batches -1", "'--micro-batches': -1 is not in the range x>=1"),
        ("--schedule zigzag", "'zigzag' is not one of 'gpipe', '1f1b'"),
        ("--pipeline 4 --chunks 2 --micro-batches 6", "--micro-batches 6 do not divide by --pipeline 4"),
        ("--pipeline 2 --stage 2", "--stage 2: there are stages 0 to 1"),
        ("--stage -1", "--stage -1: there are stages 0 to 3"),
        ("--stage 0 --json", "--stage 0: the document of --json has all stages"),
        (
            "--pipeline 100 --micro-batches 1000",
            "100 stages x 1 chunks x 1000 micro-batches = 100000 forwards: show at most 20000",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(show: Any, arguments: str, line: str) -> None:
    code, out, err = show(arguments)
    assert (code, out) == (2, "")
    assert line in err
    assert err.count("\n") == 1
