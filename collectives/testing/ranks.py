"""Where the ranks of a run come from, by the name of the transport."""

from collections.abc import Callable
from typing import TypeVar

from collectives.testing.check_error import CheckError
from collectives.testing.checks import RunRanks
from collectives.transports.base import Transport
from collectives.transports.processes import run_processes
from collectives.transports.threads import run_threads

T = TypeVar("T")

TIME_LIMIT = 60.0
"""Seconds until ranks that wait for others give up: longer than these wait for each other."""


def run_mpi(world_size: int, body: Callable[[Transport], T]) -> list[T]:
    """What ``body`` returned on each of the MPI ranks, which all call this; one CheckError on all."""
    from collectives.transports.mpi import MPITransport  # starts MPI

    transport = MPITransport()
    try:
        own: T | CheckError = body(transport)
    except CheckError as error:
        own = error
    except Exception as error:
        own = CheckError("run", f"rank {transport.rank} raised {type(error).__name__}: {error}")
    outcomes = transport.exchange(own, TIME_LIMIT)
    transport.close(TIME_LIMIT)
    for outcome in outcomes:
        if isinstance(outcome, CheckError):
            raise outcome
    return outcomes


RUN_RANKS: dict[str, RunRanks] = {"threads": run_threads, "processes": run_processes, "mpi": run_mpi}
