"""The parent process of one rank, which sees how the rank ends and says so before anything else happens.

mpiexec answers a death by killing the other ranks within microseconds, MPICH's with SIGKILL, and may then
name a victim. The witness stands between the two: mpiexec hears of a death only after its note is written.

Exit codes: 0 when the rank ended as it should, whatever its own code; 3 when it did not, which ends the job.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from collectives.launching.launched import launched_rank
from collectives.launching.processes import Process, describe_end, die_with, identify, named_signal
from collectives.launching.rank_notes import NOTES_VARIABLE, STREAMS, leave, read_notes, remove
from collectives.launching.shared_memory import remove_shared, shared_by

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_AWAITED = {signal.SIGCHLD, signal.SIGALRM, *STOP_SIGNALS}


def main(directory: str, launcher: Process, command: Sequence[str]) -> int:
    """Run ``command`` as a rank until it ends, mpiexec stops us or the launcher is gone; an exit code."""
    rank = launched_rank()
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)  # before the fork: no SIGCHLD may be missed
    witness = os.getpid()
    child = os.fork()
    if child == 0:
        _become_rank(rank, witness, directory, command)
    try:
        leave(directory, rank, "pids", f"{identify(os.getpid())} {identify(child)}")
        status = _await_end(child, directory, launcher)
        return 3 if status is None else _testify(directory, rank, os.waitstatus_to_exitcode(status))
    except FileNotFoundError:  # the launcher has ended the job and removed the directory
        return 3
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


def _become_rank(rank: int, witness: int, directory: str, command: Sequence[str]) -> NoReturn:
    try:
        # A group of its own: mpiexec's signals reach the witness alone, which then knows it for a victim.
        os.setpgid(0, 0)
        die_with(witness)
        for name, descriptor in STREAMS.items():
            os.dup2(os.open(os.path.join(directory, name), os.O_WRONLY), descriptor)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        os.execve(command[0], list(command), {**os.environ, NOTES_VARIABLE: directory})
    except Exception as error:
        leave(directory, rank, "failed", f"could not start: {error}")
    finally:
        os._exit(3)


def _await_end(child: int, directory: str, launcher: Process) -> int | None:
    """The status with which the rank ended by itself, or None when it is to be ended."""
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
    while True:
        received, sender = _next_signal()
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if received in STOP_SIGNALS:
            just_ended = _just_ended(child)
            if just_ended is None:
                # Unless mpiexec has sent it, it might wait for ever for a rank that never starts MPI.
                kind = "stopped" if sender == os.getppid() else "ended"
                leave(directory, launched_rank(), kind, named_signal(received))
            return just_ended
        if not (launcher.alive and os.path.isdir(directory)):
            if os.path.isdir(directory):  # nobody else is left to do it
                remove_shared(shared_by(directory))
                remove(directory)
            return None


def _next_signal() -> tuple[int, int]:
    """The next signal and the process that sent it, 0 where nobody can tell."""
    if sys.platform == "darwin":
        return signal.sigwait(_AWAITED), 0
    received = signal.sigwaitinfo(_AWAITED)
    return received.si_signo, received.si_pid


def _just_ended(child: int) -> int | None:
    # A dying process closes its sockets before it can be waited for: mpiexec may be quicker than SIGCHLD.
    for _ in range(10):
        time.sleep(0.01)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
    return None


def _testify(directory: str, rank: int, code: int) -> int:
    own = {
        note.kind: note.text for note in read_notes(directory, "begun", "done", "failed") if note.rank == rank
    }
    if "failed" in own:
        return 3
    if own.get("done") == str(code):
        return 0
    if "done" in own:
        when = f"after its main had returned {own['done']}"
    else:
        when = "in the middle of the run" if "begun" in own else "before its main began"
    leave(directory, rank, "died", describe_end(code, when))
    return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Process.parse(sys.argv[2]), sys.argv[3:]))
