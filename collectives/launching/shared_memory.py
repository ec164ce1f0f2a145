"""The shared memory of a job, which MPI removes only when the job ends in order: megabytes of /dev/shm."""

import contextlib
import os

from collectives.launching.rank_notes import read_notes
from collectives.launching.rank_processes import rank_processes

_PLACE = "/dev/shm/"


def mapped(pid: int | str = "self") -> set[str]:
    """The files of shared memory that a process has mapped; none without /proc.

    Only these are our job's own: those of another job have names of the same kind.
    """
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            names = {line.rstrip("\n").partition(_PLACE)[2] for line in maps}
    except OSError:
        return set()
    return {_PLACE + name for name in names if name}


def shared_by(directory: str) -> set[str]:
    """What the ranks had mapped when MPI had started, and what those map that have not come so far."""
    found = {name for note in read_notes(directory, "begun") for name in note.text.splitlines()}
    for one in rank_processes(directory):
        if one.main is not None and one.main.alive:
            found |= mapped(one.main.pid)
    return found


def remove_shared(names: set[str]) -> None:
    """Remove those that MPI has not removed."""
    for name in names:
        with contextlib.suppress(OSError):
            os.unlink(name)
