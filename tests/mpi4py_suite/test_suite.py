"""mpi4py's own tests of collectives pass on wrapped communicators, and all that they call goes through us.

They run on real ranks, and come from a package index the first time: so they are named on the command line,
as `pytest tests/mpi4py_suite`. What kinds of numbers and of arrays there are does not depend on the number of
ranks: one rank tries all type codes, several one.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collectives.launching.environment import job_environment
from collectives.launching.launched import find_mpiexec

HERE = Path(__file__).parent
SECONDS = 100
BLOCKING = ["test_cco_buf", "test_cco_vec", "test_cco_obj"]
ALL = [*BLOCKING, "test_cco_nb_buf", "test_cco_nb_vec", "test_cco_pr_buf", "test_cco_pr_vec"]
NUM_COLLECTIVES = 3 * 17 + 10
"""On buffers in three forms, and on objects."""

Reports = list[dict[str, Any]]


def run(
    directory: Path,
    num_ranks: int,
    modules: list[str],
    report: Path,
    backends: list[str] | None = None,
    typecodes: str | None = None,
    left_to_mpi: str | None = None,
) -> Reports:
    """What each rank reports."""
    settings = {
        "directory": str(directory), "modules": modules, "report": str(report),
        "backends": backends, "typecodes": typecodes, "left_to_mpi": left_to_mpi,
    }  # fmt: skip
    program = [sys.executable, "-m", "mpi4py", str(HERE / "on_ranks.py"), json.dumps(settings)]
    done = subprocess.run(
        [find_mpiexec(), "-n", str(num_ranks), *program],
        env=job_environment(), capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reports: Reports = json.loads(report.read_text())
    return reports


@pytest.mark.parametrize(
    ("num_ranks", "modules", "backends", "typecodes"),
    [
        (1, BLOCKING, ["ArrayNumPy", "DLPackNumPy", "FakeGPUArrayNumPy"], None),
        (2, ALL, ["ArrayNumPy", "FakeGPUArrayNumPy"], "d"),
        (3, ALL, ["ArrayNumPy"], "d"),
        (5, BLOCKING, ["ArrayNumPy"], "d"),
    ],
    ids=["1rank", "2ranks", "3ranks", "5ranks"],
)
def test_mpi4pys_own_tests_pass_and_every_call_goes_through_us(
    mpi4py_tests: Path,
    tmp_path: Path,
    num_ranks: int,
    modules: list[str],
    backends: list[str] | None,
    typecodes: str | None,
) -> None:
    reports = run(mpi4py_tests, num_ranks, modules, tmp_path / "report", backends, typecodes)
    for report in reports:
        assert (report["skipped"], report["not_counted"]) == ([], {})
        assert report["counted"] == report["asked"]
        assert len(report["asked"]) == (NUM_COLLECTIVES if modules == ALL else 17 + 10)
        assert report["num_passed"] == report["num_tests"] > 100
        assert (report["bytes_sent"] > 0) == (num_ranks > 1)
    assert len(reports) == num_ranks


def test_a_collective_that_is_left_to_mpi_is_found_out(mpi4py_tests: Path, tmp_path: Path) -> None:
    tests = ["test_cco_buf.TestCCOBufWorld"]
    (report, _) = run(mpi4py_tests, 2, tests, tmp_path / "report", ["ArrayNumPy"], "d", left_to_mpi="Scatter")
    assert report["asked"]["Scatter"] > 0
    assert "Scatter" not in report["counted"]
