"""What a job that has ended comes to: one message and one code."""

import os
import sys
from collections.abc import Sequence

from collectives.launching.rank_notes import BANNERS, Note
from collectives.launching.rank_processes import name_ranks


def verdict(notes: Sequence[Note], num_ranks: int, reason: str, mpiexec_code: int, directory: str) -> int:
    """The exit code, after a line on stderr if it is 3.

    ``reason`` is why the job was ended, or had ended, as far as it is known from outside the ranks.
    """
    for note in notes:
        if note.kind in ("failed", "died"):
            summary, _, trace = note.text.partition("\n")
            if trace:
                print(trace, end="", file=sys.stderr)
            say(f"rank {note.rank} {summary}")
            return 3
    codes = {note.rank: int(note.text) for note in notes if note.kind == "done"}
    missing = [rank for rank in range(num_ranks) if rank not in codes]
    if not missing and len(set(codes.values())) == 1:
        if reason:
            say(reason)  # and the run is none the worse for it
        return codes[0]
    if not missing:
        listed = ", ".join(f"rank {rank} {codes[rank]}" for rank in sorted(codes))
        say(f"the ranks returned different codes: {listed}")
        return 3
    for note in notes:
        if note.kind == "ended":
            say(f"rank {note.rank} was ended from outside, by {note.text}")
            return 3
    if reason:
        say(reason)
        return 3
    with open(os.path.join(directory, BANNERS), errors="replace") as banners:
        sys.stderr.write(banners.read())
    ended = f"mpiexec ended with code {mpiexec_code}"
    if stopped := sorted(note.rank for note in notes if note.kind == "stopped"):
        say(f"{ended} after stopping {name_ranks(stopped)}: somebody stopped it, if it says no more above")
    else:
        say(f"{ended} and no word from rank {missing[0]}: see its message above")
    return 3


def say(line: str) -> None:
    """One line on stderr, now."""
    print(line, file=sys.stderr, flush=True)
