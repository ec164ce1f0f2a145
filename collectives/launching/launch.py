"""How a command that was started outside MPI becomes N ranks, and ends with one message and one code."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

from collectives.launching.environment import job_environment
from collectives.launching.launched import LaunchError, find_mpiexec, launched_size
from collectives.launching.processes import identify, named_signal
from collectives.launching.rank_notes import BANNERS, LAST_WORDS, SCRATCH, read_notes, remove
from collectives.launching.rank_output import OutputLostError, pass_on, ranks_output
from collectives.launching.rank_processes import rank_processes
from collectives.launching.shared_memory import remove_shared, shared_by
from collectives.launching.verdict import say, verdict
from collectives.launching.watch import GRACE_SECONDS, Limits, watch
from collectives.launching.witness import STOP_SIGNALS

__all__ = ["LaunchError", "launch", "launched_size"]

MAX_RANKS = 1024
"""Each is two processes and about 50 MB of memory: more is a slip of the finger, and a machine that swaps."""

# As -m does it, which would look into the current folder first: a random.py there is none of ours.
_RUN_MODULE = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def launch(
    num_ranks: int,
    module: str,
    arguments: Sequence[str],
    *,
    start_limit: float | None = None,
    last_rank_limit: float = 60.0,
) -> int:
    """Run ``python -m module arguments`` as ``num_ranks`` MPI ranks on this machine and return one exit code.

    The module calls `rank_main.run_rank`, and is found where this process finds its own: the current folder
    is no such place unless it is one here, too. stdout and stderr are passed on, stdin is empty.

    - 0, 1 or 2: the code that every rank returned, even if mpiexec could not end in order.
    - 3, after one line on stderr that names the rank: one died, raised, left early, had not started MPI after
      ``start_limit`` seconds (60, and one more for each rank) without news of any, or had not ended
      ``last_rank_limit`` seconds after the others. mpiexec's own banners appear only if no rank left word.
    - 3 too, after such a line, when stdout takes no more of what the ranks print.
    - 128 + n: signal n (Ctrl-C, SIGTERM, SIGHUP) stopped the launcher.

    No process is left behind in any case, nor when the launcher itself is killed. Raises LaunchError without
    an mpiexec, or with ``num_ranks`` that are not 1 to MAX_RANKS.
    """
    if num_ranks < 1:
        raise LaunchError(f"{num_ranks} ranks cannot run: ask for 1 or more")
    if num_ranks > MAX_RANKS:
        raise LaunchError(f"{num_ranks} ranks are too many for one machine: ask for {MAX_RANKS} or fewer")
    mpiexec = find_mpiexec()
    if start_limit is None:
        start_limit = 60.0 + num_ranks  # on a single core they all start MPI at the end of that time
    sys.stdout.flush()  # what the ranks say comes after it
    sys.stderr.flush()
    with _stop_signals() as stopped:  # from here on there is something to tidy up
        directory = tempfile.mkdtemp(prefix="collectives-")
        run = [sys.executable, "-c", _RUN_MODULE]
        witness = [*run, "collectives.launching.witness", directory, str(identify(os.getpid()))]
        command = [mpiexec, "-n", str(num_ranks), *witness, *run, module, *arguments]
        try:
            return _run(command, directory, num_ranks, Limits(start_limit, last_rank_limit), stopped)
        except OutputLostError as error:
            say(f"the ranks are ended, for what they print is lost: {error.strerror}")
            return 3
        finally:
            remove(directory)


def _run(
    command: Sequence[str], directory: str, num_ranks: int, limits: Limits, stopped: Sequence[int]
) -> int:
    with ranks_output(directory) as pipes:
        job = _start(command, directory)
        try:
            reason = watch(job, directory, num_ranks, pipes, stopped, limits)
            notes = read_notes(directory, *LAST_WORDS)  # before we kill anybody
        finally:
            _end(job, directory)
        while pass_on(pipes, 0):
            pass
    if stopped:
        say(f"stopped by {named_signal(stopped[0])}")
        return 128 + stopped[0]
    return verdict(notes, num_ranks, reason, job.returncode, directory)


def _start(command: Sequence[str], directory: str) -> "subprocess.Popen[bytes]":
    scratch = os.path.join(directory, SCRATCH)
    os.mkdir(scratch)
    with open(os.path.join(directory, BANNERS), "wb") as banners:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=banners,
            stderr=banners,
            env=job_environment() | {"TMPDIR": scratch},
            start_new_session=True,  # Ctrl-C reaches the launcher alone, which ends the job in its own way
        )


def _end(job: "subprocess.Popen[bytes]", directory: str) -> None:
    """Leave no process behind, nor what MPI keeps outside our directory."""
    shared = shared_by(directory)  # while those who map it are alive
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        if job.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal_number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(GRACE_SECONDS)
    for one in rank_processes(directory):
        for process in (one.witness, one.main):  # the witness first, or it would report a death
            if process is not None:
                process.kill(signal.SIGKILL)
    remove_shared(shared)


@contextlib.contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """A list that receives the numbers of the stop signals that arrive meanwhile."""
    received: list[int] = []

    def note(signal_number: int, _frame: FrameType | None) -> None:
        received.append(signal_number)

    restore = {}
    if threading.current_thread() is threading.main_thread():  # Python allows it nowhere else
        for number in STOP_SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup stays nohup
                restore[number] = signal.signal(number, note)
    try:
        yield received
    finally:
        for number, handler in restore.items():
            signal.signal(number, handler)
