"""Other processes: told apart from later ones with the same number, and ended; or those that end us."""

import contextlib
import os
import signal
import sys
from typing import NamedTuple


class Process(NamedTuple):
    """A process by number and start time, as a number alone may have been given to another since."""

    pid: int
    start: str

    @property
    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return identify(self.pid) == self

    @property
    def stopped(self) -> bool:
        """Whether it is stopped, by SIGSTOP or a debugger, until somebody lets it go on."""
        stat = _stat(self.pid)
        return stat is not None and stat[0] in "tT" and stat[1] == self.start

    def kill(self, signal_number: int) -> None:
        """Send it a signal, if it is still there."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal_number)

    def __str__(self) -> str:
        return f"{self.pid}:{self.start}"

    @classmethod
    def parse(cls, text: str) -> "Process":
        """The process that ``str`` wrote down."""
        pid, _, start = text.partition(":")
        return cls(int(pid), start)


def identify(pid: int) -> Process | None:
    """The running process that has this number now, or None."""
    stat = _stat(pid)
    if stat is None:
        # Without /proc (macOS) the number is all there is.
        return None if os.path.exists("/proc/self/stat") or not _answers(pid) else Process(pid, "")
    state, start = stat
    return None if state in "ZX" else Process(pid, start)


def die_with(parent: int) -> None:
    """Let Linux end this process, a child of ``parent``, when that is killed; elsewhere nobody does."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:  # it was quicker
            os._exit(3)


def named_signal(number: int) -> str:
    """``signal 9 (SIGKILL)``."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number} (unnamed)"


def describe_end(code: int, when: str) -> str:
    """How a process ended too early, by its exit code as Python's libraries tell it: -n for signal n."""
    return f"was killed by {named_signal(-code)}" if code < 0 else f"exited with code {code} {when}"


def _stat(pid: int) -> tuple[str, str] | None:
    """The state of a process and when it started, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            stat = file.read()
    except OSError:
        return None
    # The command's name may hold spaces and brackets: fields are counted after the last one.
    state, *fields = stat.rpartition(")")[2].split()
    return state, fields[18]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
