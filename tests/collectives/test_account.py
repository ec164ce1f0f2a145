"""`collectives account`: a script of anybody's, and all that it has sent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from collectives import cli
from collectives.account.report import report
from collectives.account.traffic import Traffic, add_up, document
from collectives.ledger import Call, Entry, Label, Origin

SCRIPT = """
import sys
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Allreduce(np.ones(6), np.empty(6))
comm.Bcast(np.zeros(5, np.uint8), root=1)
comm.Send(b"abc", 0) if comm.rank == 1 else comm.Recv(bytearray(3), 1)
comm.Create_cart([2]).Free()
if "fail" in sys.argv and comm.rank == 1:
    raise ValueError("no more")
comm.Barrier()
sys.exit(0)
"""


def account(directory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    (directory / "script.py").write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, "-m", "collectives", "account", *words],
        cwd=directory, capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip


def test_a_script_is_run_and_its_bytes_told_by_pair_by_collective_and_by_line(tmp_path: Path) -> None:
    done = account(tmp_path, "--ranks", "2", "--json", "out.json", "script.py", "--ranks", "unread")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "script.py on 2 ranks: 104 bytes in 6 messages",
        "",
        "bytes        to 0  to 1",
        "from rank 0     0    48",
        "from rank 1    56     0",
        "",
        "collective      algorithm                 messages  bytes",
        "all_reduce      recursive_doubling  data         2     96",
        "broadcast       binomial            data         1      5",
        "point_to_point  Send                data         1      3",
        "barrier         dissemination       data         2      0",
        "",
        "called from   collective      messages  bytes",
        "script.py:7   all_reduce             2     96",
        "script.py:8   broadcast              1      5",
        "script.py:9   point_to_point         1      3",
        "script.py:13  barrier                2      0",
        "",
        "not counted: Create_cart (2 calls)",
    ]
    told = json.loads((tmp_path / "out.json").read_text())
    assert (told["schema"], told["num_ranks"]) == ("collectives-account/1", 2)
    assert told["bytes"] == [[0, 48], [56, 0]]
    assert sum(row["num_bytes"] for row in told["messages"]) == 104


def test_a_rank_that_raises_tells_what_it_has_sent(tmp_path: Path) -> None:
    done = account(tmp_path, "--ranks", "2", "script.py", "fail")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == "rank 1 raised ValueError: no more"
    assert "script.py on 2 ranks: 56 bytes in 3 messages" in done.stdout
    assert "without what was sent by rank 0: no word from there any more" in done.stdout
    assert "from rank 0     ?     ?\nfrom rank 1    56     0\n" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.py"], "no file nowhere.py: name a Python script that uses mpi4py"),
        (["--json", "no/where", __file__], "no/where: "),
        (["--ranks", "0", __file__], "--ranks 0: give 1 or more"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(
    words: list[str], message: str, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(sys, "argv", ["collectives", "account", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    output = capsys.readouterr()
    assert (ended.value.code, output.out, output.err.count("\n")) == (2, "", 1)
    assert message in output.err


def entry(number: int, collective: str, kind: str, site: str, *sends: tuple[int, int]) -> Entry:
    label = Label(kind=kind, phase=site)  # type: ignore[arg-type]
    return Entry(Origin(Call(number, collective, "ring", label), 0, 0), list(sends), [], 0.0)


def test_a_report_adds_up_all_ranks_and_says_which_one_is_missing() -> None:
    first = add_up(
        [
            entry(0, "all_gather", "control", "a.py:1", (1, 8)),
            entry(1, "all_gather", "training", "a.py:1", (1, 10), (2, 10)),
        ],
        {"Idup": 1},
    )
    second = add_up([entry(0, "all_gather", "training", "a.py:1", (0, 5))], {"Idup": 2, "Spawn": 1})
    traffic = Traffic("a.py", [first, second, None])
    assert document(traffic)["bytes"] == [[0, 18, 10], [5, 0, 0], [None, None, None]]
    lines = report(traffic).splitlines()
    assert lines[0] == "a.py on 3 ranks: 33 bytes in 4 messages"
    assert "without what was sent by rank 2: no word from there any more" in lines
    assert lines[-1] == "not counted: Idup (3 calls), Spawn (1 call)"
    assert [line.split()[-2:] for line in lines if line.startswith("all_gather")] == [["3", "25"], ["1", "8"]]


def test_a_script_that_sends_nothing_is_told_so() -> None:
    silent = Traffic("a.py", [add_up([], {})])
    assert report(silent).splitlines()[0] == "a.py on 1 rank: 0 bytes in 0 messages"
    assert report(silent).splitlines()[-1] == "nothing was called that is not counted"
