"""Who moves the messages: whoever waits, and a thread of our own while others compute.

One lock for the whole process is held by whoever touches a transport, and lent to the others at each pause.
So a wait on one communicator moves the messages of all, and MPI sees one thread at a time.
"""

import atexit
import threading
import time
from typing import Protocol
from weakref import WeakSet

from mpi4py import MPI

from collectives.transports.base import SLEEP_SECONDS, TIME_LIMIT
from collectives.transports.in_flight import InFlight
from collectives.transports.mpi import MPITransport

STOP_SECONDS = 1.0
"""The thread is given up at the end of the process after so long: it may be inside of MPI."""


class Startable(Protocol):
    """A persistent request that somebody may start behind our back, as Prequest.Startall does."""

    def start_if_asked(self) -> None:
        """Start the collective if MPI says that its request has been started."""


class Driver:
    """The lock, what is in flight, and the thread that moves it where nobody waits."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.in_flight = InFlight()
        self.startable: WeakSet[Startable] = WeakSet()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._work_to_do = threading.Event()

    def wake(self) -> None:
        """From here on a thread moves what is in flight. RuntimeError if MPI takes calls from one only."""
        if (provided := MPI.Query_thread()) < MPI.THREAD_MULTIPLE:
            names = {
                MPI.THREAD_SINGLE: "THREAD_SINGLE",
                MPI.THREAD_FUNNELED: "THREAD_FUNNELED",
                MPI.THREAD_SERIALIZED: "THREAD_SERIALIZED",
            }
            raise RuntimeError(
                "nonblocking and persistent collectives are moved by a thread of their own, which needs "
                f"MPI_THREAD_MULTIPLE, and MPI provides {names[provided]}: leave mpi4py.rc.thread_level at "
                "'multiple', or use the blocking collectives"
            )
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="collectives in flight", daemon=True)
            self._thread.start()
            atexit.register(self._stop)  # runs before mpi4py's own, which finalises MPI
        self._work_to_do.set()

    def _run(self) -> None:
        while not self._stopped:
            self._work_to_do.wait()
            if not self._move():
                time.sleep(SLEEP_SECONDS)

    def _move(self) -> bool:
        """Move everything once; says whether there was any news."""
        with self.lock:
            news = self.in_flight.nudge_all()
            for request in tuple(self.startable):
                request.start_if_asked()
            if not self.in_flight.works and not self.startable:
                self._work_to_do.clear()
        return news

    def _stop(self) -> None:
        self._stopped = True
        self._work_to_do.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)


DRIVER = Driver()
"""The one of this process."""


class DrivenTransport(MPITransport):
    """An MPI transport whose messages the driver moves. Made and used by whoever holds the driver's lock."""

    def __init__(self, comm: MPI.Intracomm, limit: float = TIME_LIMIT) -> None:
        super().__init__(comm, limit=limit)
        self.in_flight = DRIVER.in_flight

    def pause(self, waited: float) -> None:
        """Give the core away, and with it the lock."""
        DRIVER.lock.release()
        try:
            super().pause(waited)
        finally:
            DRIVER.lock.acquire()
