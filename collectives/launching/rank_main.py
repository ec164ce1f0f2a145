"""How a rank runs its main and ends: in order with a code, or taking the whole job with it."""

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import NoReturn

from collectives.launching.launched import LaunchError, launched_rank
from collectives.launching.rank_notes import NOTES_VARIABLE, leave
from collectives.launching.rank_processes import who_is_stopped
from collectives.launching.shared_memory import mapped
from collectives.launching.start_mpi import start_mpi
from collectives.user_error import UserError


def run_rank(main: Callable[[], int]) -> NoReturn:
    """Start MPI and end this process with the code that ``main`` returns, 0, 1 or 2, the same on every rank.

    Under the mpiexec of another MPI library that is 2, after one line that says so.

    Anything that ``main`` raises ends the job on all ranks with code 3 after a line `rank N raised ...`, even
    KeyboardInterrupt or a SystemExit with code 0: the other ranks wait for this one. Under our launcher
    the launcher prints the traceback, once; under somebody else's mpiexec this rank does, and aborts MPI.
    A UserError has no traceback printed.
    """
    directory = os.environ.get(NOTES_VARIABLE)
    rank = launched_rank()
    try:
        code = _start_and_run(main, rank, directory)
        if code not in (0, 1, 2):
            raise ValueError(f"main returned {code!r}: return 0, 1 or 2, and raise when the run cannot go on")
        sys.stdout.flush()
        sys.stderr.flush()
        if directory is not None:
            leave(directory, rank, "done", str(int(code)))
    except BaseException as error:
        _take_the_job_down(rank, error, directory)
    sys.exit(code)  # MPI finalises itself at exit


def _start_and_run(main: Callable[[], int], rank: int, directory: str | None) -> int:
    try:
        start_mpi()
    except LaunchError as error:  # on every rank, and none sees the others
        if rank == 0:
            print(error, file=sys.stderr)
        else:
            time.sleep(1.0)  # an mpiexec may end the job at the first code that is not 0
        return 2
    if directory is not None:
        leave(directory, rank, "begun", "\n".join(mapped()))
    return main()


def _take_the_job_down(rank: int, error: BaseException, directory: str | None) -> NoReturn:
    try:
        _tell(rank, error, directory)
        if directory is None:
            from mpi4py import MPI

            if not MPI.Is_finalized():
                MPI.COMM_WORLD.Abort(3)
    finally:
        # With a witness, dying is enough: it ends the job. MPI_Abort would add a banner of its own.
        os._exit(3)


def _tell(rank: int, error: BaseException, directory: str | None) -> None:
    message = " ".join(str(error).split())
    summary = f"raised {type(error).__name__}" + (f": {message}" if message else "")
    lines = [] if isinstance(error, UserError) else "".join(traceback.format_exception(error)).splitlines()
    trace = "".join(f"[rank {rank}] {line}\n" for line in lines)
    if directory is not None:
        # Now, as mpiexec kills all ranks once this one has ended. A rank that waits in vain names its peer,
        # who may be waiting too.
        summary += who_is_stopped(directory)
        leave(directory, rank, "failed", f"{summary}\n{trace}")
    # What was printed before must not be lost to os._exit, but a closed pipe must not stop us either.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        if directory is None:
            print(f"{trace}rank {rank} {summary}", file=sys.stderr)
        sys.stderr.flush()
