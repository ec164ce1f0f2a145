"""A rank that fails in the middle of training ends the command soon, by name, and leaves no process."""

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from collectives.launching.launched import find_mpiexec

HERE = Path(__file__).parent
LIMIT = 10  # seconds from the fault to the end of the command
HANG = 90  # seconds for all of it, on however busy a machine
FOREIGN = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
TRAINING = ("train", "--hidden", "4", "--iterations", "1000000", "--time-limit", "300")


@pytest.fixture
def faulty(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run the faulty command until it ends; its code, what it printed, and the processes that are left."""
    path = os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    token, when = f"{uuid.uuid4()}", tmp_path_factory.mktemp("when") / "when"
    environment = {
        **os.environ, "PYTHONPATH": path, "TOKEN": token, "WHEN": str(when), "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip

    def faulty(
        fault: str, victim: int, *arguments: str, prefix: tuple[str, ...] = ()
    ) -> tuple[int, str, str]:
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "faulty_training", *TRAINING, *arguments],
            env=environment | FOREIGN | {"FAULT": fault, "VICTIM": str(victim)},
            cwd=tmp_path, capture_output=True, text=True, timeout=HANG,
        )  # fmt: skip
        assert time.time() - float(when.read_text()) < LIMIT
        assert_gone(token)
        assert list(tmp_path.iterdir()) == []  # a run that failed writes no record
        return done.returncode, done.stdout, done.stderr

    return faulty


def assert_gone(token: str) -> None:
    deadline = time.monotonic() + 1.0  # somebody else's mpiexec may end before its last child
    while (left := alive(token)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def alive(token: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("raise", "rank 1 raised ArithmeticError: out of numbers"),
        ("kill", "rank 1 was killed by signal 9 (SIGKILL)"),
    ],
)
@pytest.mark.parametrize("transport", ["mpi", "processes"], ids="over {}".format)  # "mpi" alone is a mark
def test_a_rank_that_fails_in_the_middle_of_training_ends_it_by_name(
    faulty: Any, fault: str, line: str, transport: str
) -> None:
    files = ("--record", "run.json", "--events", "events")
    code, out, err = faulty(fault, 1, "--ranks", "3", "--transport", transport, *files)
    assert (code, out) == (3, "")
    assert err.splitlines()[-1] == line


def test_a_rank_that_fails_under_somebody_elses_mpiexec_ends_the_training(faulty: Any) -> None:
    code, out, err = faulty("raise", 1, "--record", "run.json", prefix=(find_mpiexec(), "-n", "2"))
    assert code != 0
    assert out.find("verdict") == -1
    assert "rank 1 raised ArithmeticError: out of numbers" in err


@pytest.mark.parametrize("fault", ["raise", "sys.exit(0)"])
def test_a_rank_that_fails_among_threads_ends_the_training_by_name(faulty: Any, fault: str) -> None:
    code, out, err = faulty(fault, 1, "--ranks", "3", "--transport", "threads", "--record", "run.json")
    assert (code, out) == (3, "")
    told = {
        "raise": "rank 1 raised ArithmeticError: out of numbers",
        "sys.exit(0)": "rank 1 raised SystemExit: 0",
    }
    assert err.splitlines()[-1] == told[fault]


def test_a_rank_that_is_killed_in_a_pipeline_ends_the_training_by_name(faulty: Any) -> None:
    """The other stage waits for its activations, and its neighbour for both."""
    grid = ("--ranks", "4", "--pipeline", "2", "--micro-batches", "4")
    code, out, err = faulty("kill", 1, *grid, "--transport", "processes", "--record", "run.json")
    assert (code, out) == (3, "")
    assert err.splitlines()[-1] == "rank 1 was killed by signal 9 (SIGKILL)"
