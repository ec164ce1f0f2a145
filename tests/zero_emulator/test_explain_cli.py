"""The `zero-emulator explain` command: what it prints, and how it ends."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from collectives.transports.threads import run_threads
from zero_emulator.cli import main
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.jobs import Job
from zero_emulator.outputs import Outputs
from zero_emulator.theory import PLAIN

Result = tuple[int, str, str]


@pytest.fixture
def explain(monkeypatch: Any, capsys: Any, tmp_path: Path, toy: Dataset) -> Any:
    """Write run.json or compare.json, 2 iterations of zero3 or all on 2 ranks, change it, and explain it."""
    monkeypatch.chdir(tmp_path)

    def explain(
        *arguments: object, command: str = "train", change: Any = lambda document: None, **chosen: Any
    ) -> Result:
        config = RunConfig("zero3", hidden=(4,), iterations=2, batch_size=8, dtype="float64", **chosen)
        run_threads(2, getattr(Job(config, toy, "threads", Outputs(Path("run.json"), quiet=True)), command))
        document = json.loads(Path("run.json").read_text())
        change(document)
        Path("run.json").write_text(json.dumps(document))
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["zero-emulator", "explain", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return explain


# Layers of 24 and 15 numbers of 8 bytes, blocks of 12 and 12, 8 and 7.
ZERO3 = """\
zero3, 39 parameters on 2 ranks: what a rank (least..most) sends in iteration 2 of 2, and why not 3Ψ
step           kind           bytes         sum           x Ψ   whole run
claim          training        +936         936         3.000       +1872
f(N)           training        -468         468         1.500        -936
uneven blocks  training      -4..+4    464..472  1.487..1.513      -8..+8
call checks    control        +1280  1744..1752  5.590..5.615       +2304
versions       control          +16  1760..1768  5.641..5.667         +32
digest         audit            +16  1776..1784  5.692..5.718         +32
weights        audit     +152..+160  1928..1944  6.179..6.231  +152..+160
x Ψ: as a multiple of 39 weights of 8 bytes
claim: 3 x 39 parameters in float64, 8 bytes each: gradients travel once, and weights twice
f(N): in a pass of the ring a rank sends 1 of 2 blocks, never the whole
uneven blocks: --cut even: blocks differ, and so do ranks by the one block that each does not send
call checks: all ranks compare their calls of 10 collectives, 128 bytes a call
versions: all ranks tell the versions of 2 shards, 8 bytes a version
digest: all ranks tell the digest of the weights that they used, 16 bytes
weights: after the last iteration zero3 gathers all layers once more, to be audited
counted in iteration 2: 464..472 training, 1296 control, 168..176 audit
counted in the whole run: 928..944 training, 2336 control, 184..192 audit, 0 outside iterations
the steps add up to every counted byte, on all ranks in all iterations
"""

RANK_1 = """\
zero3, 39 parameters on 2 ranks: what rank 1 sends in iteration 1 of 2, and why not 3Ψ
step           kind      bytes   sum    x Ψ  whole run
claim          training   +936   936  3.000      +1872
f(N)           training   -468   468  1.500       -936
uneven blocks  training     -4   464  1.487         -8
call checks    control   +1024  1488  4.769      +2304
versions       control     +16  1504  4.821        +32
digest         audit       +16  1520  4.872        +32
weights        audit         0  1520  4.872       +152
"""


def test_a_table_leads_from_the_claim_to_what_was_counted(explain: Any) -> None:
    assert explain("run.json") == (0, ZERO3, "")


def test_one_rank_and_one_iteration_can_be_asked_for(explain: Any) -> None:
    code, out, _ = explain("run.json", "--rank", 1, "--iteration", 1)
    assert code == 0
    assert out.startswith(RANK_1)
    assert "counted in iteration 1: 464 training, 1040 control, 16 audit\n" in out


def test_json_says_the_same_in_one_document(explain: Any) -> None:
    code, out, err = explain("run.json", "--json")
    document = json.loads(out)
    assert (code, err, document["schema"], document["verdict"]) == (0, "", "zero-emulator/explain/1", "pass")
    (run,) = document["runs"]
    assert (run["strategy"], run["claim"], run["iteration"], run["ranks"]) == ("zero3", "3Ψ", 2, [0, 1])
    assert run["steps"][0]["sum"] == [3 * 39 * 8] * 2
    counted = [sum(ranks) for ranks in zip(*run["counted"].values(), strict=True)]
    assert run["steps"][-1]["sum"] == counted
    for rank in (0, 1):
        assert sum(step["bytes"][rank] for step in run["steps"]) == counted[rank]
        whole_run = sum(step["whole_run"][rank] for step in run["steps"])
        assert whole_run == sum(values[rank] for values in run["totals"].values())
    assert run["totals"]["outside_iterations"] == [0, 0]
    assert run["remainders"] == []


def test_a_comparison_has_a_table_a_strategy(explain: Any) -> None:
    code, out, _ = explain("run.json", command="compare")
    assert code == 0
    assert [table.split(",")[0] for table in out.split("\n\n")] == list(PLAIN)
    assert out.count("the steps add up to every counted byte, on all ranks in all iterations") == 4


def test_a_byte_that_nothing_explains_is_told_and_exit_1(explain: Any) -> None:
    def one_more(document: Any) -> None:
        document["iterations"][0]["traffic"][1]["control_sent"] += 1

    code, out, _ = explain("run.json", "--rank", 0, change=one_more)
    assert code == 1
    assert out.splitlines()[-1].startswith("iteration 1, rank 1: counted ")
    assert out.splitlines()[-1].endswith(": nothing explains +1")
    code, out, _ = explain("run.json", "--json", change=one_more)
    assert (code, json.loads(out)["verdict"]) == (1, "fail")


def test_a_fault_in_all_iterations_does_not_fill_the_screen(explain: Any) -> None:
    def many(document: Any) -> None:
        for iteration in document["iterations"]:
            for traffic in iteration["traffic"]:
                for name in ("control_sent", "audit_sent"):
                    traffic[name] += 1
                for name in ("sent", "received", "sent_by_phase"):
                    traffic[name] = dict.fromkeys(traffic[name], 0)

    code, out, _ = explain("run.json", change=many)
    assert code == 1
    assert sum("nothing explains" in line for line in out.splitlines()) == 10
    assert out.splitlines()[-1] == "and 22 more"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.json"], "gone.json: no file: give a record as train or compare writes it with --record"),
        ([], "Missing argument 'RECORD'"),
        (["."], ".: no file"),
        (["run.json", "--iteration", 3], "--iteration 3: the record has iterations 1 to 2"),
        (["run.json", "--iteration", 0], "--iteration 0: the record has iterations 1 to 2"),
        (["run.json", "--rank", 2], "--rank 2: the record has ranks 0 to 1"),
        (["run.json", "--rank", -1], "--rank -1: the record has ranks 0 to 1"),
    ],
)
def test_what_cannot_be_explained_is_one_line_and_exit_2(
    explain: Any, arguments: list[object], message: str
) -> None:
    code, out, err = explain(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("zero-emulator: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("chosen", "options"),
    [
        ({"pipeline": 2}, "--pipeline 2"),
        ({"shard_size": 1}, "--shard-size 1"),
        ({"experts": 2}, "--experts 2"),
        ({"pipeline": 2, "shard_size": 1, "experts": 2}, "--pipeline 2, --experts 2, --shard-size 1"),
    ],
)
@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_run_on_a_grid_is_not_explained_and_says_so(
    explain: Any, chosen: dict[str, int], options: str, command: str
) -> None:
    code, out, err = explain("run.json", command=command, **chosen)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f" ran with {options}, and explain knows the bytes of data parallelism alone" in err


def test_shards_over_all_ranks_and_chunks_on_one_stage_are_explained(explain: Any) -> None:
    code, out, _ = explain("run.json", shard_size=2, chunks=2, schedule="gpipe", micro_batches=2)
    assert code == 0
    assert out.endswith("the steps add up to every counted byte, on all ranks in all iterations\n")
