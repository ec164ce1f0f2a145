"""The command with its ranks as processes: the same results as over MPI, and no MPI needed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = ("--hidden", "5,3", "--iterations", "2", "--batch-size", "9", "--ranks", "3")

WITHOUT_MPI = """
import sys
sys.modules["mpi4py"] = None  # from now on a ModuleNotFoundError for whoever imports it
from zero_emulator.__main__ import main
main()
"""


def zero_emulator(*arguments: str, code: str | None = None) -> tuple[int, str, str]:
    run = ("-c", code) if code else ("-m", "zero_emulator")
    done = subprocess.run(
        [sys.executable, *run, *arguments], capture_output=True, text=True, timeout=90, cwd=ROOT
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", ["train", "compare"])
def test_processes_give_the_record_that_threads_and_mpi_give(name: str) -> None:
    """Digests, bytes, peaks and verdicts; all but the clock and the transport's own name."""
    found = {}
    for transport in ("processes", "threads", "mpi") if name == "train" else ("processes", "threads"):
        code, out, err = zero_emulator(name, *SMALL, "--json", "--transport", transport)
        assert (code, err) == (0, "")
        document = json.loads(out)
        for run in document.get("runs", {name: document}).values():
            environment = run.pop("environment")
            assert environment["transport"] == transport
            assert (environment["mpi_library"] is None) == (transport != "mpi")
            assert run.pop("seconds") > 0
        found[transport] = document
    assert all(document == found["processes"] for document in found.values())


def test_where_there_is_no_mpi_processes_train() -> None:
    code, out, err = zero_emulator("train", *SMALL, "--quiet", "--transport", "processes", code=WITHOUT_MPI)
    assert (code, out, err) == (0, "verdict pass\n", "")


def test_bench_times_iterations_on_processes() -> None:
    options = ("--size", "toy", "--pairs", "1", "--ranks", "2", "--json")
    code, out, _ = zero_emulator("bench", *options, "--transport", "processes", code=WITHOUT_MPI)
    document = json.loads(out)
    assert (code, document["world_size"], document["rings"]) == (0, 2, [])
    assert all(one["seconds"] > 0 for one in document["iterations"])


def test_a_rank_over_its_memory_ends_the_command_with_its_name() -> None:
    options = ("--strategy", "ddp", "--device-memory", "1KiB", "--transport", "processes")
    code, out, err = zero_emulator("train", *SMALL, *options)
    assert (code, out) == (3, "")
    assert re.fullmatch(r"rank \d raised DeviceMemoryError: .*\n", err), "one line, no traceback"


def test_a_stdout_that_takes_no_more_is_told_in_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "zero_emulator", "train", *SMALL, "--transport", "processes"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=90, cwd=ROOT,
        )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == "zero-emulator: [Errno 28] No space left on device\n"


def test_ctrl_c_ends_processes_quietly() -> None:
    """It reaches the whole group, as from a terminal."""
    command = subprocess.Popen(
        [sys.executable, "-m", "zero_emulator", "train", *SMALL, "--iterations", "100000",
         "--transport", "processes"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    while len(_group(command.pid)) < 4:
        assert time.monotonic() < end
        time.sleep(0.02)
    os.killpg(command.pid, signal.SIGINT)
    out, err = command.communicate(timeout=30)
    assert (command.returncode, out, err) == (130, "", "")
    end = time.monotonic() + 5  # one that was just being started dies with the command, a moment later
    while _group(command.pid):
        assert time.monotonic() < end
        time.sleep(0.02)


def _group(leader: int) -> list[str]:
    listed = subprocess.run(["ps", "-o", "pid=", "-g", str(leader)], capture_output=True, text=True)
    return listed.stdout.split()
