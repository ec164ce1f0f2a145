"""What the `zero-emulator` command prints and writes, and in which colour."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from collectives.ranks import is_terminal
from zero_emulator.theory import PLAIN

SMALL = ("--hidden", "4", "--iterations", "2", "--batch-size", "8")
ON_THREADS = (*SMALL, "--transport", "threads", "--ranks", "2")


def test_json_is_one_document_and_nothing_else(command: Any) -> None:
    code, out, err = command("train", *ON_THREADS, "--json", "--quiet")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    assert json.loads(out)["schema"] == "zero-emulator/run/4"
    code, out, err = command("compare", *ON_THREADS, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert json.loads(out)["verdict"] == "pass"


@pytest.mark.parametrize("name", ["train", "compare"])
def test_quiet_prints_the_verdict_alone(command: Any, name: str) -> None:
    assert command(name, *ON_THREADS, "--quiet") == (0, "verdict pass\n", "")


@pytest.mark.parametrize("name", ["train", "compare"])
def test_the_record_written_is_the_document_printed(command: Any, folder: Path, name: str) -> None:
    Path("run.json").write_text("what stood here before")
    code, out, _ = command(name, *ON_THREADS, "--json", "--record", "run.json", "--events", "events")
    assert code == 0
    assert json.loads(Path("run.json").read_text()) == json.loads(out)
    lines = Path("events").read_text().splitlines()
    runs = json.loads(out).get("runs", {"": json.loads(out)}).values()
    total = sum(sum(rank.values()) for run in runs for rank in run["totals"])
    assert sum(json.loads(line)["bytes"] for line in lines) == total
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_bench_times_iterations(command: Any) -> None:
    """A step is a round of a schedule, here as everywhere."""
    arguments = ("bench", "--size", "toy", "--pairs", "1", "--transport", "threads", "--ranks", "2")
    code, out, _ = command(*arguments)
    assert code == 0
    assert "step" not in out
    assert [row.split()[0] for row in out.splitlines() if row][1:] == ["iteration", *PLAIN]
    code, out, _ = command(*arguments, "--json")
    document = json.loads(out)
    assert (code, document["schema"], document["world_size"]) == (0, "zero-emulator/bench/2", 2)
    assert [one["strategy"] for one in document["iterations"]] == list(PLAIN)
    assert all(one["seconds"] > 0 for one in document["iterations"])


def test_a_record_through_a_link_is_written_to_what_it_points_at(command: Any, folder: Path) -> None:
    Path("link").symlink_to("target.json")
    assert command("train", *ON_THREADS, "--quiet", "--record", "link")[0] == 0
    assert Path("link").is_symlink()
    assert json.loads(Path("target.json").read_text())["verdict"] == "pass"


@pytest.mark.parametrize(
    ("terminal", "no_colour", "painted"),
    [(True, None, True), (True, "", True), (True, "1", False), (False, None, False)],
)
def test_verdicts_are_in_colour_on_a_terminal_unless_refused(
    command: Any, monkeypatch: Any, terminal: bool, no_colour: str | None, painted: bool
) -> None:
    monkeypatch.setenv("COLLECTIVES_TERMINALS", "stdout" if terminal else "")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_colour is not None:
        monkeypatch.setenv("NO_COLOR", no_colour)
    _, out, _ = command("train", *ON_THREADS)
    assert ("\033[32mpass\033[0m" in out) == painted
    assert ("\033" in out) == painted


@pytest.mark.parametrize(("given", "expected"), [(None, True), (2, False)])
def test_the_terminal_of_a_foreign_mpiexec_is_taken_for_none(
    monkeypatch: Any, given: int | None, expected: bool
) -> None:
    """Open MPI's mpiexec gives ranks a terminal of its own, though the command writes into a file."""
    monkeypatch.setattr("collectives.ranks.launched_size", lambda: given)
    monkeypatch.delenv("COLLECTIVES_TERMINALS", raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert is_terminal("stdout") == expected


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
