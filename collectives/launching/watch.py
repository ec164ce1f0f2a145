"""How long the launcher waits for its ranks, and what for."""

import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from collectives.launching.processes import named_signal
from collectives.launching.rank_notes import KINDS
from collectives.launching.rank_output import pass_on
from collectives.launching.rank_processes import (
    gone_without_a_word,
    name_ranks,
    unwatched,
    who_is_stopped,
)

_POLL_SECONDS = 0.05
_LOOK_SECONDS = 1.0  # from one look at all processes to the next

GRACE_SECONDS = 2.0  # for mpiexec to end the job and remove its own files, before it is killed


class Limits(NamedTuple):
    """Seconds without news of any rank: while they start MPI, and while the last ones end."""

    start: float
    last_rank: float


def watch(
    job: "subprocess.Popen[bytes]",
    directory: str,
    num_ranks: int,
    pipes: Mapping[int, int],
    stopped: Sequence[int],
    limits: Limits,
) -> str:
    """Return when mpiexec has ended, or when it must be: with the reason, unless a rank has told it."""
    heard: dict[str, set[int]] = {}
    gone: list[int] = []
    blind: list[int] = []
    last_news = next_look = time.monotonic()
    while job.poll() is None and not stopped:
        pass_on(pipes, _POLL_SECONDS)
        now = time.monotonic()
        if now > next_look:
            gone, blind = gone_without_a_word(directory), unwatched(directory)
            next_look = now + _LOOK_SECONDS
        news = _hear(directory)
        if news != heard:
            heard, last_news = news, now
        limit, reason = _patience(heard, gone, blind, num_ranks, limits)
        if now - last_news > limit:
            return reason and reason + who_is_stopped(directory)
    return "" if stopped else _why_it_ended(job, directory)


def _why_it_ended(job: "subprocess.Popen[bytes]", directory: str) -> str:
    """What can be said of an mpiexec that has ended, apart from what the ranks have told."""
    if job.returncode < 0:
        return f"mpiexec was killed by {named_signal(-job.returncode)}"
    gone = gone_without_a_word(directory)  # perhaps since the last look
    return _killed(gone) if gone else ""


def _killed(gone: Sequence[int]) -> str:
    if len(gone) == 1:
        return f"{name_ranks(gone)} was killed, and the process that watches over it"
    return f"{name_ranks(gone)} were killed, and the processes that watch over them"


def _hear(directory: str) -> dict[str, set[int]]:
    """Which ranks have left a note, by its kind."""
    heard = defaultdict(set)
    for name in os.listdir(directory):
        rank, _, kind = name.partition(".")
        if kind in KINDS and rank:
            heard[kind].add(int(rank))
    return heard


def _patience(
    heard: Mapping[str, set[int]],
    gone: Sequence[int],
    blind: Sequence[int],
    num_ranks: int,
    limits: Limits,
) -> tuple[float, str]:
    """How many seconds without news are too many, and what to say then."""
    done = heard.get("done", set())
    if heard.keys() & {"failed", "died", "ended", "stopped"}:
        return GRACE_SECONDS, ""
    if gone:
        return GRACE_SECONDS, _killed(gone)
    if len(done) == num_ranks:
        # mpiexec waits for the watch, too; a rank that finalises MPI may take its time.
        limit = GRACE_SECONDS if blind else limits.last_rank
        return limit, f"mpiexec had not ended {limit:g} s after all ranks were done"
    if done:
        late = sorted(set(range(num_ranks)) - done)
        return limits.last_rank, f"{name_ranks(late)} had not ended {limits.last_rank:g} s after the others"
    late = sorted(set(range(num_ranks)) - heard.get("begun", set()))
    if late:
        return limits.start, f"{name_ranks(late)} had not started MPI after {limits.start:g} s without news"
    return float("inf"), ""  # from here on the ranks have time limits of their own
