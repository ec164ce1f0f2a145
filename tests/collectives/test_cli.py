"""The command: its output, one line for what is wrong, and its codes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from collectives import algorithms, cli
from collectives.algorithms import ALGORITHMS, Algorithm
from collectives.command import EXIT_RANK_DIED, EXIT_REFUTED, EXIT_USAGE
from collectives.promises import ALL_GATHER


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["collectives", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    output = capsys.readouterr()
    return int(ended.value.code or 0), output.out, output.err


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    return lambda *words: run(monkeypatch, capsys, *words)


def test_show_prints_the_table(command) -> None:
    code, out, err = command("show", "ring", "all_gather", "--ranks", "2")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "ring all_gather on 2 ranks, 1 step",
        "step  rank 0   rank 1",
        "0     0>1 1<1  1>0 0<0",
    ]


def test_verify_proves_every_algorithm(command) -> None:
    code, out, err = command("verify", "--ranks", "1-5")
    assert (code, err) == (0, "")
    proved = out.splitlines()
    assert "proved   ring all_reduce on 1 to 5 ranks, 8 steps and 8 blocks sent on 5" in proved
    doubling = "recursive_doubling all_gather on 1 to 5 ranks that are a power of two"
    assert f"proved   {doubling}, 2 steps and 3 blocks sent on 4" in proved
    assert [line.partition(" on ")[0] for line in proved] == [
        f"proved   {algorithm}" for algorithm in ALGORITHMS.values()
    ]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("ring",), 3),
        (("ring", "--collective", "all_reduce"), 1),
        (("--collective", "all_gather"), sum(c == "all_gather" for _, c in ALGORITHMS)),
    ],
)
def test_verify_takes_what_it_is_told(command, words: tuple[str, ...], lines: int) -> None:
    code, out, _ = command("verify", *words, "--ranks", "4")
    assert code == 0
    assert len(out.splitlines()) == lines
    assert all("on 4 ranks" in line for line in out.splitlines())


def test_a_refuted_schedule_ends_with_code_1_and_a_counterexample(command, monkeypatch) -> None:
    broken = Algorithm("broken", ALL_GATHER, lambda rank, world_size: iter(()))
    monkeypatch.setitem(algorithms.ALGORITHMS, ("broken", "all_gather"), broken)
    code, out, _ = command("verify", "broken", "--ranks", "2-3")
    assert code == EXIT_REFUTED == 1
    assert out.splitlines() == [
        "refuted  broken all_gather on 2 ranks: rank 0 ends with block 1 without the contribution of rank 1",
        "step  rank 0  rank 1",
        "0     [end]   end",
    ]


def test_a_limit_that_allows_no_size_of_the_range_is_said_and_nothing_claimed(command) -> None:
    code, out, err = command("verify", "two_level_4", "--ranks", "5-7")
    assert (code, err) == (0, "")
    needs = "it needs a world size that is a multiple of 4"
    assert out == f"no claim two_level_4 all_reduce on 5 to 7 ranks: {needs}\n"


MINE = """
from __future__ import annotations

from dataclasses import dataclass
from neighbour import last
from collectives.algorithms import Algorithm
from collectives.promises import ALL_REDUCE
from collectives.schedule import Recv, Send

def good(rank, world_size):
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    for step in range(world_size - 1):
        yield Send(right, ((rank - step) % world_size,)), Recv(left, ((rank - step - 1) % world_size,))

def bad(rank, world_size):
    yield from list(good(rank, world_size))[:last]

def unordered(rank, world_size):
    blocks = tuple(range(world_size))
    others = [peer for peer in range(world_size) if peer != rank]
    yield (*(Send(peer, blocks) for peer in others), *(Recv(peer, blocks, "before") for peer in others))

def broken(rank, world_size):
    raise ValueError("two\\nlines")
    yield

@dataclass
class Settings:
    steps: int = 3

declared = Algorithm("declared", ALL_REDUCE, unordered)
number = 3
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("last = 4\n")
    (tmp_path / "wrong.py").write_text("import sys\nsys.exit('no licence')\n")
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return file


def test_a_schedule_of_the_users_own_is_proved_and_shown(command, mine: Path) -> None:
    code, out, err = command("verify", f"{mine}:good", "--collective", "all_gather", "--ranks", "1-9")
    assert (code, err) == (0, "")
    assert out == "proved   good all_gather on 1 to 9 ranks, 8 steps and 8 blocks sent on 9\n"
    code, out, err = command("show", f"{mine}:good", "all_gather", "--ranks", "2")
    assert (code, err) == (0, "")
    assert out.splitlines()[2] == "0     0>1 1<1  1>0 0<0"


def test_a_schedule_of_the_users_own_is_refuted_on_the_fewest_ranks_with_its_table(command, mine) -> None:
    code, out, err = command("verify", f"{mine}:bad", "--collective", "all_gather")
    assert (code, err) == (EXIT_REFUTED, "")
    fault, head, *rows = out.splitlines()
    assert fault == (
        "refuted  bad all_gather on 6 ranks: rank 0 ends with block 1 without the contribution of rank 1"
    )
    assert head.split() == ["step", *(word for rank in range(6) for word in ("rank", str(rank)))]
    assert [row.split()[0] for row in rows] == ["0", "1", "2", "3", "4"]
    assert rows[-1].split() == ["4", "[end]", *["end"] * 5]


def test_a_schedule_that_breaks_off_is_refuted_in_one_line_and_is_nothing_to_show(command, mine) -> None:
    fault = "broken all_gather on {} ranks, step 0: rank 0 raises ValueError: two lines"
    code, out, err = command("verify", f"{mine}:broken", "--collective", "all_gather", "--ranks", "2")
    assert (code, err) == (EXIT_REFUTED, "")
    assert out.splitlines()[0] == f"refuted  {fault.format(2)}"
    code, out, err = command("show", f"{mine}:broken", "all_gather", "--ranks", "3")
    assert (code, out, err) == (EXIT_USAGE, "", f"collectives: {fault.format(3)}\n")


def test_a_schedule_that_knows_no_root_is_told_of_it(command, mine: Path) -> None:
    code, out, _ = command("verify", f"{mine}:good", "--collective", "gather", "--ranks", "2")
    assert code == EXIT_REFUTED
    assert out.splitlines()[0].endswith("3 were given: a schedule is a function of (rank, world_size, root)")


def test_a_schedule_of_the_users_own_keeps_order_if_it_is_to(command, mine: Path) -> None:
    words = ("verify", f"{mine}:unordered", "--collective", "all_reduce", "--ranks", "3")
    assert command(*words)[0] == 0
    code, out, _ = command(*words, "--in-order")
    assert code == EXIT_REFUTED
    assert "ends with block 0 with its operands out of rank order: rank 0 reorders operands in step 0" in out
    declared = command("verify", f"{mine}:declared", "--collective", "all_reduce", "--ranks", "3")
    assert declared[:2] == (code, out.replace("unordered", "declared"))


def test_an_algorithm_that_says_what_it_is_for_need_not_be_told(command, mine: Path) -> None:
    told = command("verify", f"{mine}:declared", "--collective", "all_reduce", "--ranks", "1")
    assert command("verify", f"{mine}:declared", "--ranks", "1") == told
    assert told[0] == 0


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("mine.py:good", (), "what is .*mine.py:good to do? .*exscan: say which by --collective"),
        ("mine.py:good", ("--collective", "gossip"), "no collective 'gossip': there are all_gather, reduce_"),
        ("mine.py:lost", ("--collective", "all_gather"), "mine.py has no 'lost': name a function of (rank, "),
        ("mine.py:", ("--collective", "all_gather"), "mine.py has no '': name a function"),
        ("mine.py:number", ("--collective", "all_gather"), "mine.py:number is of type int: name a function"),
        ("mine.py:declared", ("--collective", "all_gather"), "declared all_reduce is not an algorithm for a"),
        ("none.py:good", ("--collective", "all_gather"), "no file "),
        ("wrong.py:good", ("--collective", "all_gather"), "wrong.py raises SystemExit: no licence"),
    ],
)
def test_a_file_without_a_schedule_is_one_line_and_code_2(
    command, mine: Path, name: str, words: tuple[str, ...], message: str
) -> None:
    code, out, err = command("verify", str(mine.with_name(name)), *words)
    assert (code, out) == (EXIT_USAGE, "")
    assert re.search(re.escape(message).replace(r"\.\*", ".*"), err)
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "star", "all_gather"), "no algorithm 'star' for all_gather: there are "),
        (("show", "ring", "all_scatter"), "no collective 'all_scatter': there are all_gather"),
        (("show", "ring"), "Missing argument 'COLLECTIVE'"),
        (("show", "ring", "all_gather", "--ranks", "0"), "0 is not in the range 1<=x<=1024"),
        (("verify", "star"), "nothing to prove for 'star': there are "),
        (("verify", "star.py"), "recursive_doubling exscan; your own is FILE.py:FUNCTION"),
        (("verify", ""), "nothing to prove for '': there are "),
        (("show", "ring", "all_gather", "--ranks", "1025"), "1025 is not in the range 1<=x<=1024"),
        (
            ("verify", "ring", "--in-order"),
            "--in-order is for FILE.py:FUNCTION: built-in algorithms say what",
        ),
        (
            ("show", "recursive_doubling", "all_gather", "--ranks", "6"),
            "that is a power of two, and 6 is not",
        ),
        (("prove",), "No such command 'prove'"),
        (("show", "--nodes", "4"), "No such option"),
    ],
)
def test_wrong_usage_is_one_line_on_stderr_and_code_2(command, words: tuple[str, ...], message: str) -> None:
    code, out, err = command(*words)
    assert code == EXIT_USAGE == 2
    assert out == ""
    assert err.startswith("collectives: ")
    assert message in err
    assert err.count("\n") == 1


ODD_RANGES = (
    *(
        "0-3",
        "5-3",
        "many",
        "-4",
        "4-",
        "-",
        "",
        " ",
        "1-",
        "1--4",
        "4-2",
        "1-2-3",
        "1,2",
        "1..4",
        "+4",
        "4.0",
    ),
    *("1-1025", "1-100000", "1_0", "\u0664", "9" * 5000, "1-" + "9" * 5000),
)


@pytest.mark.parametrize("text", ODD_RANGES, ids=lambda text: ascii(text[:9]))
def test_what_is_no_range_of_world_sizes_is_one_line_and_code_2(command, text: str) -> None:
    code, out, err = command("verify", "--ranks", text)
    assert (code, out) == (EXIT_USAGE, "")
    assert f"{text.strip()}' is no range of world sizes: write 4, or 1-64, up to 1024" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("show", "-h"), ("verify", "--help")])
def test_help_is_help(command, words: tuple[str, ...]) -> None:
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: collectives")


def test_no_arguments_shows_the_help_and_code_2(command) -> None:
    code, out, _ = command()
    assert code == EXIT_USAGE
    assert "Usage: collectives" in out


def test_an_unexpected_fault_is_one_line_and_code_3(command, monkeypatch) -> None:
    def crash(*arguments: object) -> None:
        raise KeyError("a key\nthat is missing")

    monkeypatch.setattr(cli, "show", crash)
    code, out, err = command("show", "ring", "all_gather")
    assert (code, out) == (EXIT_RANK_DIED, "")
    assert err.startswith("collectives: KeyError: ")
    assert err.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_line_and_code_3() -> None:
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "collectives", "show", "ring", "all_gather"]
        result = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == EXIT_RANK_DIED == 3
    assert result.stderr == "collectives: [Errno 28] No space left on device\n"


def test_a_reader_that_has_left_is_one_line_and_code_3() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "collectives", "show", "ring", "all_gather"]
    result = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert result.returncode == EXIT_RANK_DIED
    assert result.stderr == "collectives: nobody reads the output any more\n"


def test_the_module_runs_as_the_command() -> None:
    words = [sys.executable, "-m", "collectives", "show", "ring", "all_gather"]
    result = subprocess.run(words, capture_output=True, text=True)
    assert result.returncode == 0
    assert result.stdout.startswith("ring all_gather on 4 ranks, 3 steps\n")
