"""A program on real ranks, and what Open MPI's own monitoring saw of it."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from collectives.launching.environment import job_environment
from collectives.launching.launched import find_mpiexec

NUM_RANKS = 4
POINT_TO_POINT = re.compile(r"^E\t(\d+)\t(\d+)\t(\d+) bytes\t(\d+) msgs sent", re.M)
"""Of the program itself; what MPI's own collectives send, such as the gathering of the reports, is I."""


class Seen(NamedTuple):
    """Bytes and messages by (sender, receiver), as Open MPI saw them, and what the program printed."""

    num_bytes: Counter[tuple[int, int]]
    num_messages: Counter[tuple[int, int]]
    output: str


@pytest.fixture
def monitored(tmp_path: Path) -> Callable[..., Seen]:
    """``python -m`` these arguments on four ranks, in a directory of its own."""

    def monitored(*arguments: str) -> Seen:
        monitoring = {"enable": "2", "enable_output": "3", "filename": str(tmp_path / "seen")}
        flags = [
            part for name, value in monitoring.items() for part in ("--mca", f"pml_monitoring_{name}", value)
        ]
        done = subprocess.run(
            [find_mpiexec(), *flags, "-n", str(NUM_RANKS), sys.executable, "-m", *arguments],
            env=job_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seen = Seen(Counter(), Counter(), done.stdout)
        profiles = [(tmp_path / f"seen.{rank}.prof").read_text() for rank in range(NUM_RANKS)]
        for line in POINT_TO_POINT.findall("".join(profiles)):
            sender, receiver, num_bytes, num_messages = map(int, line)
            seen.num_bytes[sender, receiver] += num_bytes
            seen.num_messages[sender, receiver] += num_messages
        return seen

    return monitored
