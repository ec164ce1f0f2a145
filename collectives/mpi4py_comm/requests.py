"""Collectives in flight as MPI requests, which MPI's own Wait, Waitall, Test and Startall can be given.

MPI knows nothing of our collectives. So each request is one of MPI's own, with this very process, and of no
bytes. One in flight is a receive: when the collective is done, that message is sent. A persistent one is a
synchronous send: its message tells that it has been started, by whatever means, and is taken in the end.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, Literal

from mpi4py import MPI

from collectives.communicator import Communicator
from collectives.mpi4py_comm.driver import DRIVER
from collectives.mpi4py_comm.flight import CollectiveFlight
from collectives.mpi4py_comm.itself import itself
from collectives.mpi4py_comm.operation import Operation

NOTHING = [bytearray(0), 0, MPI.BYTE]
_SOMETHING = [b"!", 1, MPI.BYTE]
_numbers = count()


class DrivenRequest(MPI.Request):
    """A request whose collective is moved by whoever waits for it, not by the driver's thread alone."""

    _flight: CollectiveFlight | None = None

    def Wait(self, status: MPI.Status | None = None) -> Literal[True]:
        """Finish it. Raises what the collective has failed with, or CollectiveTimeoutError."""
        with DRIVER.lock:
            self._look()
            if self._flight is not None:
                self._flight.wait()
        with self._its_failure():
            return super().Wait(status)

    def Test(self, status: MPI.Status | None = None) -> bool:
        """Whether it is done, after a nudge."""
        with DRIVER.lock:
            self._look()
            DRIVER.in_flight.nudge_all()
        with self._its_failure():
            return super().Test(status)

    def wait(self, status: MPI.Status | None = None) -> Any:
        """As Wait; a collective on buffers has no object to return."""
        self.Wait(status)

    def test(self, status: MPI.Status | None = None) -> tuple[bool, Any]:
        """As Test; a collective on buffers has no object to return."""
        return self.Test(status), None

    def _look(self) -> None:
        """Whether it has been started behind our back."""

    @contextmanager
    def _its_failure(self) -> Iterator[None]:
        """What the collective has failed with, rather than what MPI makes of it."""
        try:
            yield
        except MPI.Exception:
            if self._flight is None or self._flight.failure is None:
                raise
        if self._flight is not None and self._flight.over and self._flight.failure is not None:
            raise self._flight.failure


class CollectiveRequest(DrivenRequest):
    """A collective in flight."""


class CollectivePrequest(DrivenRequest, MPI.Prequest):
    """A collective that is settled, to be started often."""

    __hash__ = object.__hash__

    def settle(self, communicator: Communicator, operation: Operation, tag: int) -> None:
        """Give it its collective. The driver looks after it from then on."""
        self._communicator, self._operation, self._tag = communicator, operation, tag
        self._prepared = operation.prepare(communicator)
        DRIVER.startable.add(self)
        DRIVER.wake()

    def Start(self) -> None:
        """Put its first messages on their way."""
        with DRIVER.lock:
            super().Start()
            self._begin()

    def Free(self) -> None:
        """Give it back."""
        with DRIVER.lock:
            DRIVER.startable.discard(self)
        super().Free()

    def start_if_asked(self) -> None:
        """Start the collective if its request has been started by other means, as by Prequest.Startall."""
        is_idle = self._flight is None or self._flight.over
        if is_idle and self != MPI.REQUEST_NULL and itself().Iprobe(0, self._tag):
            self._begin()

    def _begin(self) -> None:
        self._operation.load()
        work = self._prepared.start()
        self._flight = CollectiveFlight(self._communicator, self._operation, work, partial(_take, self._tag))
        DRIVER.wake()

    _look = start_if_asked


def start_request(communicator: Communicator, operation: Operation) -> CollectiveRequest:
    """The collective, in flight. To be called by whoever holds the driver's lock."""
    DRIVER.wake()
    tag = _new_tag()
    request = CollectiveRequest(itself().Irecv(NOTHING, 0, tag))
    work = operation.start(communicator)
    request._flight = CollectiveFlight(communicator, operation, work, partial(_send, tag))
    return request


def settle_request(communicator: Communicator, operation: Operation) -> CollectivePrequest:
    """The collective, to be started often. To be called by whoever holds the driver's lock."""
    tag = _new_tag()
    request = CollectivePrequest(itself().Ssend_init(NOTHING, 0, tag))
    request.settle(communicator, operation, tag)
    return request


def _new_tag() -> int:
    """One that no other request has, until MPI's run out."""
    return 1 + next(_numbers) % int(itself().Get_attr(MPI.TAG_UB) or 32767)


def _send(tag: int, failed: bool) -> None:
    """Complete a receive. If it is to fail, wherever the user waits for it, it is sent more than it takes."""
    itself().Send(_SOMETHING if failed else NOTHING, 0, tag)


def _take(tag: int, failed: bool) -> None:
    """Complete a send, which cannot fail: its Wait and Test say so, and MPI's own do not."""
    itself().Recv(NOTHING, 0, tag)
