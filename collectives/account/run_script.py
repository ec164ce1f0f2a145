"""One rank of a script that is accounted for."""

import json
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from mpi4py import MPI

from collectives.account.report import report
from collectives.account.traffic import RankTraffic, Traffic, add_up, document
from collectives.files import write_whole
from collectives.mpi4py_comm import wrap
from collectives.mpi4py_comm.tally import Tally
from collectives.transports.base import TransportError
from collectives.transports.mpi import MPITransport

LAST_WORDS_SECONDS = 5.0
"""How long a rank whose script has failed waits for the others to tell what they have sent."""

LAST_RANK_SECONDS = 3600.0
"""How long a rank whose script has ended waits for the others."""


def run_script(script: Path, arguments: Sequence[str], json_file: Path | None) -> int:
    """Run it with COMM_WORLD and COMM_SELF wrapped; then rank 0 prints what was sent. 0, or it raises.

    A rank whose script raises tells what it knows, and raises that too. If the others do not come to tell it
    in time, since they wait for this one, it prints its own share alone.
    """
    tally, transport = Tally(), MPITransport()
    for name in ("COMM_WORLD", "COMM_SELF"):
        setattr(MPI, name, wrap(getattr(MPI, name), tally=tally))
    limit = LAST_WORDS_SECONDS
    try:
        _run(script, arguments)
        limit = LAST_RANK_SECONDS
    finally:
        own = add_up(tally.ledger.entries, dict(tally.not_counted))
        _tell(str(script), _gather(own, transport, limit), transport.rank, json_file)
    return 0


def _run(script: Path, arguments: Sequence[str]) -> None:
    """As Python does it. Leaving with code 0 is as good as coming to the end."""
    sys.argv[:] = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise


def _gather(own: RankTraffic, transport: MPITransport, limit: float) -> list[RankTraffic | None]:
    try:
        return transport.exchange(own, limit)
    except TransportError:
        return [own if rank == transport.rank else None for rank in range(transport.world_size)]


def _tell(script: str, ranks: list[RankTraffic | None], rank: int, json_file: Path | None) -> None:
    """By rank 0, or by one that is alone with what it knows."""
    if rank != 0 and None not in ranks:
        return
    traffic = Traffic(script, ranks)
    print(report(traffic), flush=True)
    if json_file is not None:
        write_whole(json_file, [json.dumps(document(traffic), indent=1) + "\n"])
