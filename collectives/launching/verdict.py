"""What a job that has ended comes to: one message and one code."""

import os
import sys
from collections.abc import Sequence

from collectives.launching.rank_notes import BANNERS, Note


def verdict(notes: Sequence[Note], num_ranks: int, reason: str, mpiexec_code: int, directory: str) -> int:
    """The exit code, after a line on stderr if it is 3. ``reason`` is why the job was ended, if it was."""
    for note in notes:
        if note.kind in ("failed", "died"):
            summary, _, trace = note.text.partition("\n")
            if trace:
                print(trace, file=sys.stderr)
            say(f"rank {note.rank} {summary}")
            return 3
    codes = {note.rank: int(note.text) for note in notes if note.kind == "done"}
    missing = [rank for rank in range(num_ranks) if rank not in codes]
    if not missing and len(set(codes.values())) == 1:
        return codes[0]
    if not missing:
        listed = ", ".join(f"rank {rank} {codes[rank]}" for rank in sorted(codes))
        say(f"the ranks returned different codes: {listed}")
        return 3
    if reason:
        say(reason)
        return 3
    for note in notes:
        if note.kind == "ended":
            say(f"rank {note.rank} was ended from outside, by {note.text}")
            return 3
    with open(os.path.join(directory, BANNERS), errors="replace") as banners:
        sys.stderr.write(banners.read())
    say(f"mpiexec ended with code {mpiexec_code} and no word from rank {missing[0]}: see its message above")
    return 3


def say(line: str) -> None:
    """One line on stderr, now."""
    print(line, file=sys.stderr, flush=True)
