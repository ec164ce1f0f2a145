"""How a command that was started outside MPI becomes N ranks, and ends with one message and one code."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

from collectives.launching.launched import LaunchError, find_mpiexec, launched_size
from collectives.launching.processes import Process, identify
from collectives.launching.rank_notes import BANNERS, Note, read_notes, remove
from collectives.launching.rank_output import OutputLostError, pass_on, ranks_output
from collectives.launching.witness import STOP_SIGNALS, signal_name

__all__ = ["LaunchError", "launch", "launched_size"]

_POLL_SECONDS = 0.05
_GRACE_SECONDS = 2.0  # for mpiexec to end the job and remove its own files, before it is killed

_SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",  # containers run as root
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # more ranks than cores
    "OPENBLAS_NUM_THREADS": "1",  # threads change the order of sums, and fight the other ranks for cores
    "OMP_NUM_THREADS": "1",
}


def launch(num_ranks: int, module: str, arguments: Sequence[str], *, last_rank_limit: float = 60.0) -> int:
    """Run ``python -m module arguments`` as ``num_ranks`` MPI ranks on this machine and return one exit code.

    The module calls `rank_main.run_rank`. stdout and stderr are passed on, stdin is empty.

    - 0, 1 or 2: the code that every rank returned.
    - 3, after one line on stderr that names the rank: one died, raised, left early, or had not ended
      ``last_rank_limit`` seconds after another did. mpiexec's own banners appear only if no rank left word.
    - 3 too, after such a line, when what the ranks print cannot be written any more.
    - 128 + n: signal n (Ctrl-C, SIGTERM, SIGHUP) stopped the launcher.

    No process is left behind in any case, nor when the launcher itself is killed. Raises LaunchError without
    an mpiexec or with ``num_ranks`` below 1.
    """
    if num_ranks < 1:
        raise LaunchError(f"{num_ranks} ranks cannot run: ask for 1 or more")
    mpiexec = find_mpiexec()
    directory = tempfile.mkdtemp(prefix="collectives-")
    witness = [sys.executable, "-m", "collectives.launching.witness", directory, str(identify(os.getpid()))]
    command = [mpiexec, "-n", str(num_ranks), *witness, sys.executable, "-m", module, *arguments]
    sys.stdout.flush()  # what the ranks say comes after it
    sys.stderr.flush()
    try:
        with ranks_output(directory) as pipes, _stop_signals() as stopped:
            job = _start(command, directory)
            try:
                _watch(job, directory, num_ranks, pipes, stopped, last_rank_limit)
                notes = read_notes(directory, "done", "failed", "died")  # before we kill anybody ourselves
            finally:
                _end(job, directory)
            while pass_on(pipes, 0):
                pass
        if stopped:
            _say(f"stopped by signal {stopped[0]} ({signal_name(stopped[0])})")
            return 128 + stopped[0]
        return _verdict(notes, num_ranks, last_rank_limit, job.returncode, directory)
    except OutputLostError as error:
        with contextlib.suppress(OSError):
            _say(f"the ranks are ended, for what they print is lost: {error.strerror}")
        return 3
    finally:
        remove(directory)


def _start(command: Sequence[str], directory: str) -> "subprocess.Popen[bytes]":
    # These ranks run here: inside an allocation mpiexec would otherwise start them through srun, elsewhere.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PBS_"))}
    with open(os.path.join(directory, BANNERS), "wb") as banners:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=banners,
            stderr=banners,
            env=_SETTINGS | inherited,
            start_new_session=True,  # Ctrl-C reaches the launcher alone, which ends the job in its own way
        )


def _watch(
    job: "subprocess.Popen[bytes]",
    directory: str,
    num_ranks: int,
    pipes: Mapping[int, int],
    stopped: Sequence[int],
    last_rank_limit: float,
) -> None:
    """Return when mpiexec has ended, or when it must be."""
    deadline = None
    while job.poll() is None and not stopped:
        pass_on(pipes, _POLL_SECONDS)
        kinds = [name.partition(".")[2] for name in os.listdir(directory) if name[0] != "."]
        if "failed" in kinds or "died" in kinds:
            limit = _GRACE_SECONDS
        elif "done" in kinds:
            limit = last_rank_limit if kinds.count("done") < num_ranks else last_rank_limit + _GRACE_SECONDS
        else:
            continue
        now = time.monotonic()
        deadline = min(deadline or now + limit, now + limit)
        if now > deadline:
            return


def _end(job: "subprocess.Popen[bytes]", directory: str) -> None:
    """Leave no process behind."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        if job.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal_number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(_GRACE_SECONDS)
    for note in read_notes(directory, "pids"):
        for process in note.text.split():  # the witness first, or it would report a death
            if process != "None":
                Process.parse(process).kill(signal.SIGKILL)


def _verdict(
    notes: Sequence[Note], num_ranks: int, last_rank_limit: float, mpiexec_code: int, directory: str
) -> int:
    for note in notes:
        if note.kind != "done":
            summary, _, trace = note.text.partition("\n")
            if trace:
                print(trace, file=sys.stderr)
            _say(f"rank {note.rank} {summary}")
            return 3
    codes = {note.rank: int(note.text) for note in notes}
    missing = [rank for rank in range(num_ranks) if rank not in codes]
    if not missing and len(set(codes.values())) == 1:
        return codes[0]
    if not missing:
        _say(
            f"the ranks returned different codes: {', '.join(f'rank {r} {codes[r]}' for r in sorted(codes))}"
        )
        return 3
    waited = (time.monotonic_ns() - notes[0].time_ns) / 1e9 if notes else 0.0
    if waited > last_rank_limit:
        _say(f"rank {missing[0]} had not ended {last_rank_limit:g} s after rank {notes[0].rank} had")
        return 3
    with open(os.path.join(directory, BANNERS), errors="replace") as banners:
        sys.stderr.write(banners.read())
    _say(f"mpiexec ended with code {mpiexec_code} and no word from rank {missing[0]}: see its message above")
    return 3


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


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
