"""What the MPI session of conftest.py promises, shown on sessions of two ranks that go wrong."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collectives.launching.environment import job_environment

ROOT = Path(__file__).parents[1]
MPIEXEC = Path(sys.executable).with_name("mpiexec")

FAILS_ON_RANK_1 = """
import numpy as np
from pathlib import Path

def test_sum(run_ranks):
    def body(comm):
        Path("here").touch()
        assert comm.rank == 0, "rank 1 has something to say"
        comm.all_reduce(np.ones(3), np.empty(3)).wait()
    run_ranks(body)
"""

SKIPS_ITSELF = """
import pytest

def test_one(run_ranks):
    run_ranks(lambda comm: None)

def test_two(run_ranks):
    run_ranks(lambda comm: pytest.skip("not today"))
"""

PASSES = """
import pytest

def test_without_ranks():
    raise AssertionError("selected without run_ranks")

@pytest.mark.ranks(min=3)
def test_of_three(run_ranks):
    raise AssertionError("selected on two ranks")

@pytest.mark.parametrize("world_size", [2, 64])
def test_of_its_own_size(run_ranks):
    assert run_ranks(lambda comm: comm.rank) == [0, 1]
"""

HIDDEN_FIXTURE = """
import pytest

@pytest.fixture
def in_disguise(run_ranks):
    return run_ranks
"""

USES_IT = """
def test_it(in_disguise):
    pass
"""


def session(tmp_path: Path, code: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(code)
    command = [str(MPIEXEC), "-n", "2", sys.executable, "-m", "mpi4py", "-m", "pytest"]
    command += ["--with-mpi", "-m", "mpi", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=job_environment(), cwd=tmp_path
    )


def test_a_failure_on_one_rank_ends_the_run_with_its_traceback(tmp_path: Path) -> None:
    result = session(tmp_path, FAILS_ON_RANK_1)
    failed = (tmp_path / "here").stat().st_mtime  # a loaded machine is slow to get as far
    assert result.returncode != 0
    assert time.time() - failed < 10, "rank 0 was left waiting"
    assert "rank 1: " in result.stderr
    assert "test_it.py" in result.stderr
    assert "AssertionError: rank 1 has something to say" in result.stderr


def test_a_test_that_skips_itself_on_mpi_fails_the_run(tmp_path: Path) -> None:
    result = session(tmp_path, SKIPS_ITSELF)
    assert result.returncode != 0
    assert "ran 1 of 2 MPI tests" in result.stdout


def test_what_needs_other_ranks_is_deselected_and_the_rest_is_counted(tmp_path: Path) -> None:
    result = session(tmp_path, PASSES)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 MPI tests ran on 2 ranks" in result.stdout
    assert result.stdout.count("passed") == 1, "one report for all ranks"
    assert "skipped" not in result.stdout


def test_a_file_that_would_be_passed_over_on_real_ranks_is_an_error_on_threads(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "conftest.py").write_text(HIDDEN_FIXTURE)
    (tmp_path / "below" / "test_it.py").write_text(USES_IT)
    command = [sys.executable, "-m", "pytest", "--co", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=job_environment())
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "add its fixture to RANK_FIXTURES" in result.stderr


def test_ranks_as_threads_need_no_mpi() -> None:
    code = "import sys, collectives.cli, collectives.communicator, collectives.transports.threads"
    code += "; sys.exit('mpi4py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
