"""A second thread of a rank that copies while the first computes."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread
from traceback import clear_frames

Job = Callable[[], None]

TIME_LIMIT = 60.0
"""Seconds to wait for a job, unless told otherwise."""


class CopyTimeoutError(TimeoutError):
    """A job of the copy thread has taken too long; the message says which, and what it waited behind."""


class Ticket:
    """A job that was handed over; ``wait`` before what it touches is used.

    Once ``wait`` has returned or raised what the job raised, nothing here holds the job or what it refers to.
    So whoever keeps that until then lets go of it last, on the thread where memory is counted.
    """

    def __init__(self, job: Job, number: int, jobs_begun: Callable[[], int], time_limit: float) -> None:
        self._job: Job | None = job
        self._number, self._jobs_begun, self._time_limit = number, jobs_begun, time_limit
        self._failure: BaseException | None = None
        self._over = Event()

    def wait(self) -> None:
        """Return when the job is done, at once if it was; raise what it raised, each time.

        CopyTimeoutError after the time limit: the job may still be done later, and be awaited again.
        """
        if not self._over.wait(self._time_limit):
            raise CopyTimeoutError(
                f"waited {self._time_limit:g} s for job {self._number} of the copy thread, which has begun "
                f"{self._jobs_begun()}: take a longer time limit"
            )
        if self._failure is not None:
            raise self._failure

    def run(self) -> None:
        """Do the job, on the copy thread."""
        job, self._job = self._job, None
        assert job is not None, "a job is done once"
        try:
            job()
        except BaseException as failure:  # for the thread that waits
            clear_frames(failure.__traceback__)  # they hold what the job worked on
            self._failure = failure
        del job  # before anybody learns that it is over
        self._over.set()


class Copier:
    """One copy thread, which does its jobs in the order in which they were handed over.

    It starts with the first job, not earlier: a thread does not survive a fork. ``close`` ends it, and so
    does the end of the process, whatever is under way.
    """

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        self.time_limit = time_limit
        self._jobs: SimpleQueue[Ticket | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._submitted = self._begun = 0
        self._closed = False

    def submit(self, job: Job) -> Ticket:
        """Hand a job over. RuntimeError after ``close``."""
        if self._closed:
            raise RuntimeError(
                f"the copy thread was closed after {self._submitted} jobs: make another Copier"
            )
        if self._thread is None:
            self._thread = Thread(target=self._work, name="copier", daemon=True)
            self._thread.start()
        self._submitted += 1
        ticket = Ticket(job, self._submitted, lambda: self._begun, self.time_limit)
        self._jobs.put(ticket)
        return ticket

    def close(self) -> None:
        """End the thread, for good, after the jobs that it has; CopyTimeoutError if they take too long."""
        self._closed = True
        if self._thread is None:
            return
        self._jobs.put(None)
        self._thread.join(self.time_limit)
        if self._thread.is_alive():
            raise CopyTimeoutError(
                f"waited {self.time_limit:g} s for the copy thread to end, which has begun {self._begun} of "
                f"{self._submitted} jobs: take a longer time limit"
            )

    def _work(self) -> None:
        while (ticket := self._jobs.get()) is not None:
            self._begun += 1
            ticket.run()
