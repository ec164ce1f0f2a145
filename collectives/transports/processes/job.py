"""The ranks of a job as their parent sees them: who has ended, how, and what came of it."""

import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import IO, Any, NamedTuple

from collectives.launching.processes import describe_end, identify
from collectives.launching.rank_processes import name_ranks
from collectives.transports.failures import RankDiedError, describe_failure
from collectives.transports.processes.kinds import ABORT
from collectives.transports.processes.rank import read_report
from collectives.transports.processes.wire import Pipes, Wire

GRACE_SECONDS = 2.0
"""For the other ranks to end by themselves, once one has failed."""


class Failure(NamedTuple):
    """Of the first rank that failed, and a line that says so."""

    rank: int
    error: BaseException
    line: str


class Job:
    """The ranks that run, and what has come of the others."""

    def __init__(
        self, processes: Sequence[BaseProcess], files: Sequence[IO[bytes]], last_rank_limit: float
    ) -> None:
        self.results: dict[int, Any] = {}
        self._processes, self._files, self._limit = processes, files, last_rank_limit
        self._running = set(range(len(processes)))

    def wait(self) -> Failure | None:
        """Until all have returned, or the first has failed."""
        while self._running:
            ended = self._ended(self._limit if self.results else None)
            if not ended:
                return self._died(min(self._running), f"had not ended {self._limit:g} s after the others")
            for rank in ended:
                failure = self._hear(rank)
                if failure is not None:
                    return failure
        return None

    def abort(self, pipes: Pipes, failed: int) -> None:
        """End the waits of those that run, and give them a moment to end in order."""
        wire = Wire(pipes, failed)
        for rank in self._running:
            wire.tell(rank, ABORT)
        end = time.monotonic() + GRACE_SECONDS
        while self._running and (left := end - time.monotonic()) > 0:
            self._ended(left)

    def _ended(self, seconds: float | None) -> list[int]:
        """Those that ran before and have ended by now: at least one, if there is one within ``seconds``."""
        found = wait([self._processes[rank].sentinel for rank in self._running], seconds)
        ended = [rank for rank in sorted(self._running) if self._processes[rank].sentinel in found]
        self._running.difference_update(ended)
        return ended

    def _hear(self, rank: int) -> Failure | None:
        self._processes[rank].join()
        code, report = self._processes[rank].exitcode, read_report(self._files[rank])
        assert code is not None, "it has ended"
        if code < 0 or report is None:
            return self._died(rank, describe_end(code, "in the middle of the run"))
        if report.error is None:
            self.results[rank] = report.result
            return None
        return Failure(rank, report.error, describe_failure(rank, report.error) + self._who_is_stopped())

    def _died(self, rank: int, how: str) -> Failure:
        line = f"rank {rank} {how}{self._who_is_stopped()}"
        return Failure(rank, RankDiedError(line), line)

    def _who_is_stopped(self) -> str:
        """Added to what is said of a wait in vain."""
        found = {rank: identify(self._processes[rank].pid or 0) for rank in sorted(self._running)}
        stopped = [rank for rank, process in found.items() if process and process.stopped]
        return f" ({name_ranks(stopped)} {'is' if len(stopped) == 1 else 'are'} stopped)" if stopped else ""
