"""A command whose stdout or stderr is closed, full, or read by nobody: one line, and the right code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TRAIN = "zero_emulator train --ranks 2 --iterations 2 --hidden 4 --quiet --transport"
COMMANDS = ("collectives show ring all_gather", f"{TRAIN} threads", f"{TRAIN} mpi")
WRONG = ("collectives show star all_gather", f"{TRAIN} threads --lr -1", f"{TRAIN} mpi --lr -1")
VERDICT = "verdict pass\n"
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


def run(command: str, streams: str) -> tuple[int, str, str]:
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m {command} {streams}"],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_stdout_is_refused_before_anything_starts(command: str, tmp_path: Path) -> None:
    name = command.partition(" ")[0].replace("_", "-")
    record = f"--record {tmp_path}/run.json" if "train" in command else ""
    line = f"{name}: stdout is closed: give it a place, such as >/dev/null\n"
    assert run(f"{command} {record}", ">&-") == (2, "", line)
    if "show" in command:
        assert run(command, ">&- 2>&-") == (2, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS[1:])
def test_a_stdout_that_nobody_reads_is_noticed_before_any_rank_starts(command: str, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", *command.split(), "--record", f"{tmp_path}/run.json"],
        env=ENVIRONMENT, stdout=writer, stderr=subprocess.PIPE, text=True,
        timeout=60,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (3, "zero-emulator: nobody reads the output any more\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [*COMMANDS, "collectives", "zero_emulator --help"])
def test_a_full_stdout_is_one_line_and_code_3(command: str) -> None:
    code, out, err = run(command, ">/dev/full")
    assert (code, out) == (3, "")
    assert err.endswith("No space left on device\n")
    assert err.count("\n") == 1


def with_both_ends(*commands: str) -> pytest.MarkDecorator:
    """Each command with a stderr that is closed or full, the first with both."""
    ends = ("2>&-", "2>/dev/full")
    pairs = [(commands[0], ends[0]), *((one, ends[number % 2 == 0]) for number, one in enumerate(commands))]
    return pytest.mark.parametrize(("command", "streams"), pairs)


@with_both_ends(*COMMANDS)
def test_a_stderr_that_takes_nothing_costs_no_result(command: str, streams: str) -> None:
    expected = VERDICT if "train" in command else run(command, "")[1]
    assert run(command, streams) == (0, expected, "")


@with_both_ends(*WRONG)
def test_wrong_usage_is_code_2_even_if_it_cannot_be_said(command: str, streams: str) -> None:
    assert run(command, streams) == (2, "", "")


@pytest.mark.parametrize("transport", ["mpi", "threads"], ids="over {}".format)  # "mpi" alone is a mark
def test_a_rank_that_speaks_to_a_full_stderr_ends_the_run_in_the_same_way(transport: str) -> None:
    command = f"{TRAIN} {transport} --time-limit 1e-9"
    assert run(command, "2>/dev/full") == (3, "", "")
