"""`collectives bench`: what it prints and writes, what it refuses, and its codes."""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collectives import cli
from collectives.bench import bench as bench_module
from collectives.bench.subjects import SUBJECTS
from collectives.choices_file import read_choices

ROOT = Path(__file__).parents[2]
ON_THREADS = ("bench", "--transport", "threads", "--ranks", "2", "--sizes", "4K", "--rounds", "2")
RING = (*ON_THREADS, "--algorithm", "ring")


@pytest.fixture
def command(monkeypatch: Any, capsys: Any, tmp_path: Path):  # type: ignore[no-untyped-def]
    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["collectives", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLLECTIVES_CHOICES", raising=False)
    monkeypatch.setattr(bench_module, "beyond_cache", lambda: 1 << 20)
    return run


def rows(out: str) -> list[list[str]]:
    """The lines that hold figures, in words."""
    return [line.split() for line in out.splitlines() if line.strip()[:1].isdigit() and "ranks" not in line]


def test_each_collective_has_the_columns_of_nccl_tests_and_ours(command) -> None:
    code, out, err = command(*RING, "--sizes", "4K,16K")
    assert (code, err) == (0, "")
    heads = [line.split() for line in out.splitlines() if "#wrong" in line]
    times = ["time", "p99", "algbw", "busbw", "/copy", "/mpi", "#wrong"]
    assert heads == [["size", "count", "type", "redop", "algorithm", *times, *times, "sent"]] * 3
    sizes = [row[:5] for row in rows(out)]
    assert sizes == [
        ["4096", "512", "float32", "none", "ring"],
        ["16384", "2048", "float32", "none", "ring"],
        ["4096", "512", "float32", "sum", "ring"],
        ["16384", "2048", "float32", "sum", "ring"],
        ["4096", "1024", "float32", "sum", "ring"],
        ["16384", "4096", "float32", "sum", "ring"],
    ]
    assert all(row[11] == row[18] == "0" for row in rows(out))
    assert [row[-1] for row in rows(out)] == ["2048", "8192", "2048", "8192", "4096", "16384"]


def test_files_hold_what_is_printed_and_its_bandwidths_are_those_of_nccl_tests(command) -> None:
    code, out, _ = command(*RING, "--ranks", "4", "--json", "b.json", "--csv", "b.csv", "--tune", "t.json")
    assert code == 0
    document = json.loads(Path("b.json").read_text())
    assert (document["schema"], document["world_size"]) == ("collectives-bench/1", 4)
    assert document["copy_limit"]["bytes_a_second"] > 0
    assert len(document["figures"]) == 2 * len(rows(out)) == 6
    factors = {"all_gather": 3 / 4, "reduce_scatter": 3 / 4, "all_reduce": 2 * 3 / 4}
    for one in document["figures"]:
        assert one["algorithm_bandwidth"] == pytest.approx(4096 / one["seconds"])
        factor = factors[one["collective"]]
        assert one["bus_bandwidth"] == pytest.approx(factor * one["algorithm_bandwidth"])
        limit = document["copy_limit"]["bytes_a_second"]
        assert one["of_copy_limit"] == pytest.approx(one["bus_bandwidth"] / limit)
        assert one["seconds_p99"] >= one["seconds"]
    written = list(csv.DictReader(Path("b.csv").read_text().splitlines()))
    assert [row["sent"] for row in written] == [str(one["sent"]) for one in document["figures"]]
    assert [(one.collective, one.algorithm) for one in read_choices("t.json")] == [
        (name, "ring") for name in factors
    ]
    assert not [path.name for path in Path().iterdir() if path.name.startswith(".")]


def test_a_wrong_result_is_counted_and_ends_with_code_1(command, monkeypatch) -> None:
    right = bench_module.our_contender

    def spoiled(comm: Any, *arguments: Any) -> Any:
        one = right(comm, *arguments)

        def run() -> None:
            one.run()
            if comm.rank == 1:
                one.trial.due[0][0][3] += 1

        return replace(one, run=run)

    monkeypatch.setattr(bench_module, "our_contender", spoiled)
    code, out, _ = command(*RING, "--warmup", "1", "--collective", "all_reduce")
    assert code == 1
    assert [(row[11], row[18]) for row in rows(out)] == [("3", "3")]


MINE = """
from collectives.schedule import Recv, Send

def swap(rank, world_size):
    if world_size == 2:
        yield Send(1 - rank, (rank,)), Recv(1 - rank, (1 - rank,))
"""


def test_an_algorithm_of_ones_own_is_measured_under_its_name(command) -> None:
    Path("mine.py").write_text(MINE)
    mine = ("--algorithm", "mine.py:swap,ring", "--collective", "all_gather")
    code, out, _ = command(*ON_THREADS, *mine)
    assert code == 0
    assert rows(out)[0][4] == "mine.py:swap"
    code, _, err = command(*ON_THREADS, *mine, "--ranks", "3")
    assert code == 2
    missing = "rank 0 ends with block 1 without the contribution of rank 1"
    assert err == f"collectives: swap all_gather on 3 ranks: {missing}\n"


def test_all_means_every_algorithm_whose_limit_allows_the_ranks(command) -> None:
    every = ("--algorithm", "all", "--collective", "all_gather")
    names = [row[4] for row in rows(command(*ON_THREADS, *every, "--ranks", "3")[1])]
    assert names == ["ring", "bidirectional_ring", "bruck", "pat", "direct"]


def test_what_tune_writes_on_one_rank_is_a_table_of_every_collective(command) -> None:
    collectives = tuple(SUBJECTS)
    words = (*ON_THREADS, "--ranks", "1", "--collective", ",".join(collectives), "--algorithm", "auto")
    code, _, err = command(*words, "--tune", "t.json")
    assert (code, err) == (0, "")
    assert [choice.collective for choice in read_choices("t.json")] == [*collectives]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--collective", "all_gathr"), "no collective 'all_gathr' to measure: there are all_gather, "),
        (("--algorithm", "rung"), "no algorithm 'rung' for all_gather: there are ring, "),
        (
            ("--algorithm", "two_level_2", "--collective", "all_reduce", "--ranks", "3"),
            "of 2, and 3",
        ),
        (("--algorithm", "mpi"), "algorithm mpi over threads: leave it out, or take --transport mpi"),
        (("--algorithm", "mpi", "--tune", "t"), "--tune chooses among the algorithms of the table, not mpi"),
        (("--algorithm", "mine.py:swap"), "which collective is mine.py:swap for? Say one --collective"),
        (("--sizes", "4X"), "'4X' are no sizes: write 4K-32M"),
        (("--sizes", "4K-1024G"), "bytes: a rank needs 2200 GB of memory or more, this machine has "),
        (("--sizes", "4"), "all_gather of 4 bytes on 2 ranks: give 8 or more"),
        (("--plot", "b.pdf"), "--plot b.pdf: a picture is .svg or .png"),
        (("--json", "b", "--csv", "b"), "--json and --csv are both b: name two files"),
        (("--json", "none/b"), "none/b: there is no directory "),
        (("--ranks", "0"), "--ranks 0: give 1 or more"),
        (("--time-limit", "nan"), "--time-limit nan: give a number of seconds above 0"),
        (("--time-limit", "inf"), "--time-limit inf: give a number of seconds above 0"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line_before_any_rank_starts(
    command, monkeypatch, words: tuple[str, ...], message: str
) -> None:
    def started(*_: Any) -> None:
        raise AssertionError("a rank has started")

    monkeypatch.setattr("collectives.ranks.run_threads", started)
    code, out, err = command(*RING, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not any(Path().iterdir())


def test_a_picture_without_matplotlib_is_refused_before_anything_is_measured(command, monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = command(*RING, "--plot", "b.svg")
    assert code == 2
    assert err.startswith("collectives: --plot needs matplotlib, which is not here: pip install matplotlib")


def test_a_file_that_cannot_be_written_costs_the_code_and_not_the_figures(command, monkeypatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("collectives.bench.files.write_whole", full)
    code, out, err = command(*RING, "--json", "b.json")
    assert code == 2
    assert len(rows(out)) == 3
    assert err == "collectives: b.json could not be written (No space left on device): name another place\n"


def test_a_refusal_under_an_mpiexec_is_made_by_all_ranks_together(command, monkeypatch) -> None:
    """Or the others would wait for this one, where it alone was told wrong."""
    together: list[str] = []

    def refuse_on_ranks(message: str) -> None:
        together.append(message)
        raise SystemExit(2)

    monkeypatch.setattr("collectives.ranks.refuse_on_ranks", refuse_on_ranks)
    monkeypatch.setattr("collectives.cli.launched_size", lambda: 2)
    assert command("bench", "--sizes", "4X") == (2, "", "")
    assert len(together) == 1
    assert "'4X' are no sizes" in together[0]
    code, _, err = command("show", "rung", "all_gather")  # which every process runs for itself
    assert code == 2
    assert "no algorithm 'rung'" in err
    assert len(together) == 1
