"""What the ranks of a launched job leave for their launcher to read: one small file a fact."""

import contextlib
import os
import time
from typing import NamedTuple

# Imported by a process a rank before the rank itself starts: no pathlib here, which costs 30 ms each.

NOTES_VARIABLE = "COLLECTIVES_NOTES"  # tells a rank the directory; absent under somebody else's mpiexec

# Beside the notes: two named pipes that the ranks write to, and a file for what mpiexec itself has to say.
# Kept apart, so that nobody must guess which line is whose (MPICH's mpiexec prints its banners on stdout).
STREAMS = {"stdout": 1, "stderr": 2}
BANNERS = "banners"

# Also there: the TMPDIR of the job, so that what MPI puts into it goes when the notes go.
SCRATCH = "tmp"

# pids: of the witness and of its rank · begun: MPI has started, main is about to run (text: the shared
# memory that MPI has made) · done: main returned (text: the code) · failed: it raised · died: seen by the
# witness · ended: somebody outside the job told the witness to end · stopped: mpiexec told it to
KINDS = ("pids", "begun", "done", "failed", "died", "ended", "stopped")
LAST_WORDS = ("done", "failed", "died", "ended", "stopped")
"""After which nobody wonders why a rank is gone."""


class Note(NamedTuple):
    """One fact about one rank; notes sort by the time at which they became true."""

    time_ns: int
    rank: int
    kind: str
    text: str


def leave(directory: str, rank: int, kind: str, text: str = "") -> None:
    """Write a note, whole or not at all. Raises FileNotFoundError when the launcher has tidied up."""
    assert kind in KINDS
    unfinished = os.path.join(directory, f".{rank}.{kind}")
    with open(unfinished, "w", encoding="utf-8", errors="backslashreplace") as file:
        # One machine, one monotonic clock: the notes of different processes can be put in order.
        file.write(f"{time.monotonic_ns()}\n{text}")
    os.rename(unfinished, os.path.join(directory, f"{rank}.{kind}"))


def read_notes(directory: str, *kinds: str) -> list[Note]:
    """All notes of these kinds, the earliest first."""
    notes = []
    for name in os.listdir(directory):
        rank, _, kind = name.partition(".")
        if kind in kinds and rank:
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                time_ns, _, text = file.read().partition("\n")
            notes.append(Note(int(time_ns), int(rank), kind, text))
    return sorted(notes)


def remove(directory: str) -> None:
    """Remove the directory of notes and all that is in it, as far as somebody else has not."""
    for place, folders, files in os.walk(directory, topdown=False):
        with contextlib.suppress(OSError):
            for name in files:
                os.unlink(os.path.join(place, name))
            for name in folders:
                os.rmdir(os.path.join(place, name))
    with contextlib.suppress(OSError):
        os.rmdir(directory)
