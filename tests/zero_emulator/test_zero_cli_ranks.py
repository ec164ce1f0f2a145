"""The `zero-emulator` command on real ranks, its own or those of an mpiexec."""

import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from collectives.launching.environment import job_environment
from collectives.launching.launched import find_mpiexec
from zero_emulator.theory import PLAIN

ROOT = Path(__file__).parents[2]
SMALL = ("--hidden", "4", "--iterations", "2", "--batch-size", "8")
Result = tuple[int, str, str]


def run_for_real(*arguments: str, prefix: tuple[str, ...] = (), cwd: Path = ROOT) -> Result:
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "zero_emulator", *arguments],
        cwd=cwd, env=job_environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_real_ranks_train_and_give_the_bits_of_threads(command: Any) -> None:
    arguments = ("train", *SMALL, "--ranks", "3", "--json", "--strategy", "zero3", "--prefetch", "1")
    code, out, err = run_for_real(*arguments)
    assert (code, err, out.count("\n")) == (0, "", 1)
    real, threads = json.loads(out), json.loads(command(*arguments, "--transport", "threads")[1])
    assert real["environment"]["transport"] == "mpi"
    assert real["environment"]["mpi_library"]
    for key in ("iterations", "totals", "persistent", "test_accuracy", "block_sizes"):
        assert real[key] == threads[key]


def test_real_ranks_compare(tmp_path: Path) -> None:
    code, out, err = run_for_real("compare", *SMALL, "--ranks", "2", "--record", "run.json", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert out.endswith("verdict pass\n")
    assert set(json.loads((tmp_path / "run.json").read_text())["runs"]) == set(PLAIN)


def test_under_an_mpiexec_the_command_takes_the_ranks_that_it_is_given() -> None:
    code, out, err = run_for_real("train", *SMALL, "--json", prefix=(find_mpiexec(), "-n", "2"))
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert json.loads(out)["world_size"] == 2


def test_under_an_mpiexec_wrong_usage_of_all_ranks_is_told_once(tmp_path: Path) -> None:
    code, out, err = run_for_real("train", "--lr", "-1", cwd=tmp_path, prefix=(find_mpiexec(), "-n", "3"))
    assert code == 2
    assert re.findall("zero-emulator: .*", out + err) == ["zero-emulator: --lr -1: give a number above 0"]


def test_under_an_mpiexec_what_one_rank_alone_cannot_do_ends_them_all(tmp_path: Path) -> None:
    """The others must not wait in MPI_Init for a rank that has left."""
    right = ("-n", "2", sys.executable, "-m", "zero_emulator", "train", *SMALL)
    wrong = ("train", *SMALL, "--data", "missing.npz")
    code, out, err = run_for_real(*wrong, ":", *right, cwd=tmp_path, prefix=(find_mpiexec(), "-n", "1"))
    assert code == 2
    (line,) = re.findall("zero-emulator: .*", out + err)
    assert line.endswith(f" (on rank 0, {platform.node()})")
    assert "missing.npz" in line
