"""The command: its output, one line for what is wrong, and its codes."""

import os
import subprocess
import sys

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
    assert "proved   ring all_reduce on 1 to 5 ranks, 8 steps on 5" in proved
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
        "refuted  broken all_gather on 2 ranks: rank 0 ends with block 1 without the contribution of rank 1"
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "star", "all_gather"), "no algorithm 'star' for all_gather: there are "),
        (("show", "ring", "all_scatter"), "no collective 'all_scatter': there are all_gather"),
        (("show", "ring"), "Missing argument 'COLLECTIVE'"),
        (("show", "ring", "all_gather", "--ranks", "0"), "0 is not in the range 1<=x<=1024"),
        (("verify", "star"), "nothing to prove for 'star': there are "),
        (("show", "ring", "all_gather", "--ranks", "1025"), "1025 is not in the range 1<=x<=1024"),
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
