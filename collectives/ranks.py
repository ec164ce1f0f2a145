"""Where a command's ranks come from: threads or processes of ours, an mpiexec of ours, or somebody's."""

import os
import platform
import sys
from collections.abc import Callable
from typing import NoReturn, Protocol

import click

from collectives.command import EXIT_RANK_DIED, EXIT_USAGE
from collectives.launching.launch import MAX_RANKS, launch
from collectives.launching.launched import LaunchError, launched_size
from collectives.launching.rank_main import run_rank
from collectives.launching.rank_output import OutputLostError
from collectives.transports.base import Transport
from collectives.transports.failures import OnFailure, trace_of
from collectives.transports.threads import run_threads
from collectives.user_error import UserError

DEFAULT_RANKS = 4

TERMINALS = "COLLECTIVES_TERMINALS"
"""Which of our streams are terminals: the ranks write into pipes and cannot see it."""

Body = Callable[[Transport], int]


def world_size(asked: int | None, transport: str, *, default: int = DEFAULT_RANKS) -> int:
    """How many ranks the command will have. ValueError if that is not what was asked for."""
    given = launched_size()
    if transport != "mpi" and given is not None:
        raise ValueError(
            f"--transport {transport} under an mpiexec, whose ranks would each run it: leave one out"
        )
    if asked is not None and asked < 1:
        raise ValueError(f"--ranks {asked}: give 1 or more")
    if asked is not None and asked > MAX_RANKS and not given:
        raise ValueError(f"--ranks {asked}: give {MAX_RANKS} or fewer, which this one machine has to run")
    if given and asked is not None and asked != given:
        raise ValueError(f"--ranks {asked} under an mpiexec that started {given} ranks: leave --ranks out")
    return given or asked or default


def run_on_ranks(num_ranks: int, transport: str, body: Body, module: str) -> NoReturn:
    """Run ``body`` on every rank and exit with the code that it returns, or 3 if a rank fails.

    Outside MPI this starts the same command again, as ``python -m module``: ``num_ranks`` ranks under the
    mpiexec of this environment, which come here a second time, and run the body.
    """
    if transport == "threads":
        sys.exit(_run_here(run_threads, num_ranks, body))
    if transport == "processes":
        from collectives.transports.processes import run_processes  # 20 ms that the others need not spend

        sys.exit(_run_here(run_processes, num_ranks, body))
    if launched_size() is None:
        streams = {"stdout": sys.stdout, "stderr": sys.stderr}
        os.environ[TERMINALS] = " ".join(name for name, stream in streams.items() if stream.isatty())
        try:
            sys.exit(launch(num_ranks, module, sys.argv[1:]))
        except LaunchError as error:
            raise click.UsageError(str(error)) from error
    run_rank(lambda: _run_as_mpi_rank(body))


def refuse_on_ranks(message: str) -> NoReturn:
    """Exit on all ranks with the code for wrong usage after one line, even if only this rank was told wrong.

    The others would wait for it in MPI_Init: it must come, if only to tell them.
    """
    run_rank(lambda: _run_as_mpi_rank(lambda transport: EXIT_USAGE, refusal=message))


def is_terminal(stream: str) -> bool:
    """Whether "stdout" or "stderr" of the command ends at a terminal; under a foreign mpiexec nobody knows.

    Open MPI's gives its ranks terminals of its own, and passes what they say on into a file as well.
    """
    if TERMINALS in os.environ:
        return stream in os.environ[TERMINALS].split()
    return launched_size() is None and bool(getattr(sys, stream).isatty())


def _run_as_mpi_rank(body: Body, refusal: str | None = None) -> int:
    from collectives.transports.mpi import MPITransport

    transport = MPITransport()
    refusals = transport.exchange(refusal)
    refused = [rank for rank, message in enumerate(refusals) if message is not None]
    if not refused:
        return body(transport)
    if transport.rank == refused[0]:
        alone = f" (on rank {refused[0]}, {platform.node()})" if set(refusals) != {refusal} else ""
        click.echo(f"{refusal}{alone}", err=True)
    transport.exchange(None)  # it has been said, before an mpiexec ends the job for our code
    return EXIT_USAGE


class _Runner(Protocol):
    """`run_threads` or `run_processes`."""

    def __call__(self, world_size: int, body: Body, *, on_failure: OnFailure) -> list[int]: ...


def _run_here(run: _Runner, num_ranks: int, body: Body) -> int:
    told = False

    def tell(line: str, error: BaseException) -> None:
        nonlocal told
        if isinstance(error, OutputLostError):
            return  # no fault of the rank's: whoever runs the command says it
        trace = "" if isinstance(error, UserError) else trace_of(error)
        print(f"{trace}{line}", file=sys.stderr)
        told = True

    try:
        return run(num_ranks, body, on_failure=tell)[0]
    except (Exception, SystemExit):  # a rank that leaves in the middle has failed, whatever its code
        if not told:
            raise
        return EXIT_RANK_DIED
