"""Starts the ranks as processes, hears what comes of them, and lets none of them outlive the others.

They are forked: nothing is imported again, and ``body`` may be a closure over anything. Of this process's
threads a rank has only the one that forks (OpenBLAS makes its own anew), so the others must hold no lock that
``body`` needs: ours have no others, and pytest's only watch.
"""

import multiprocessing
import os
import resource
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.process import BaseProcess
from typing import TypeVar

from collectives.transports.base import Transport
from collectives.transports.failures import OnFailure, note_rank, tell_nobody
from collectives.transports.processes.job import Job
from collectives.transports.processes.messages import ProcessMessages
from collectives.transports.processes.pieces import Windows
from collectives.transports.processes.rank import become_rank, report_file, run_and_report
from collectives.transports.processes.shared import SharedMemory
from collectives.transports.processes.transport import ProcessTransport
from collectives.transports.processes.wire import Pipes, Wire

T = TypeVar("T")


def run_processes(
    world_size: int,
    body: Callable[[Transport], T],
    *,
    on_failure: OnFailure = tell_nobody,
    may_read: bool = True,
    last_rank_limit: float = 60.0,
) -> list[T]:
    """What ``body(transport)`` returned on each rank, all run at once as processes.

    The first rank that raises ends the others; its exception is raised here, with its rank in a note (from
    Python 3.11, which has notes), after ``on_failure`` was called with it and a line that names the rank.
    RankDiedError for one that is killed, exits, or has not ended ``last_rank_limit`` seconds after another.
    OSError if this machine does not start so many. No process is left in any case, nor, on Linux, when
    this one is killed.

    Results and exceptions are pickled. ``may_read=False`` sends by two copies, through shared memory, what
    the receiver could read where it is.
    """
    if world_size < 1:
        raise ValueError(f"a world of {world_size} ranks: give 1 or more")
    _allow_files(100 + 8 * world_size)
    members, parent = tuple(range(world_size)), os.getpid()
    with ExitStack() as stack:
        with _starting(world_size):
            pipes, windows = stack.enter_context(closing(Pipes(world_size))), Windows(world_size)
            shared = SharedMemory(world_size)
            files = [stack.enter_context(report_file()) for _ in members]

        def run(rank: int) -> None:
            become_rank(parent)
            messages = ProcessMessages(Wire(pipes, rank), windows, shared, may_read=may_read)

            def on_rank() -> T:
                result = body(ProcessTransport(messages, members, rank))
                messages.send_all()
                return result

            run_and_report(on_rank, files[rank])

        with _processes(world_size, run) as processes:
            job = Job(processes, files, last_rank_limit)
            failure = job.wait()
            if failure is None:
                return [job.results[rank] for rank in members]
            job.abort(pipes, failure.rank)
    on_failure(failure.line, failure.error)
    raise note_rank(failure.error, failure.rank, world_size)


def _allow_files(number: int) -> None:
    """Raise the limit of open files to ``number``, as far as we may: it is lower than that by habit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < number:
        most = number if hard == resource.RLIM_INFINITY else min(number, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


@contextmanager
def _starting(world_size: int) -> Iterator[None]:
    """What this machine refuses in here, it refuses to so many ranks: the OSError says so."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{world_size} ranks do not start here ({error.strerror}): take fewer") from error


@contextmanager
def _processes(world_size: int, run: Callable[[int], None]) -> Iterator[list[BaseProcess]]:
    """``run(rank)`` in a process for each rank; whatever happens, none is left in the end."""
    context = multiprocessing.get_context("fork")
    processes: list[BaseProcess] = []
    try:
        for rank in range(world_size):
            process: BaseProcess = context.Process(target=run, args=(rank,))
            with warnings.catch_warnings(), _starting(world_size):
                # Of threads in this process, from Python 3.12: see above.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            processes.append(process)
        yield processes
    finally:
        for started in processes:
            started.kill()
        for started in processes:
            started.join()
            started.close()
