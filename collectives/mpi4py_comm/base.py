"""What every part of a wrapped communicator stands on: MPI's communicator, our Communicator, one ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mpi4py import MPI

from collectives.communicator import Communicator
from collectives.ledger import Label, Ledger
from collectives.mpi4py_comm.call_site import call_site
from collectives.mpi4py_comm.driver import DRIVER, DrivenTransport
from collectives.mpi4py_comm.faults import as_mpi_raises
from collectives.mpi4py_comm.tally import Tally
from collectives.transports.metered import MeteredTransport


class WrappedComm(MPI.Intracomm):
    """An MPI communicator with a Communicator of ours beside it, on a duplicate of its own."""

    tally: Tally
    """What was called, counted or not: one for all communicators that come from one ``wrap``."""
    _communicator: Communicator
    _num_children = 0

    @property
    def ledger(self) -> Ledger:
        """Every message sent through this communicator and those that come from it."""
        return self.tally.ledger

    def not_counted(self) -> dict[str, int]:
        """How often each method was called whose messages the ledger does not have."""
        return dict(self.tally.not_counted)

    def _set_up(self, tally: Tally, path: tuple[int, ...], time_limit: float) -> None:
        """Every rank of it calls this. ``path``: which communicator it is, alike on all ranks."""
        self.tally = tally
        with DRIVER.lock:
            transport = MeteredTransport(DrivenTransport(MPI.Intracomm(self), time_limit), tally.ledger)
            self._communicator = Communicator(transport, time_limit=time_limit, check=False)
        self._communicator._path = path

    @contextmanager
    def _call(self, name: str) -> Iterator[Communicator]:
        """The Communicator, for a call of this name: what is started inside is of that place in the program.

        Raises MPI's error if this communicator has been freed, or if a message of ours has met one.
        """
        if self == MPI.COMM_NULL:
            raise MPI.Exception(MPI.ERR_COMM)
        label = Label(phase=call_site())
        with DRIVER.lock, as_mpi_raises():
            self.tally.counted[name] += 1
            self._communicator.label = label
            yield self._communicator

    def Free(self) -> None:
        """Give it back, and our duplicate of it."""
        super().Free()
        self._close()

    def Disconnect(self) -> None:
        """Give it back once all that was started on it is done."""
        super().Disconnect()
        self._close()

    def _close(self) -> None:
        with DRIVER.lock:
            self._communicator.close()


def world_rank(comm: WrappedComm, rank: int) -> int:
    """The rank in COMM_WORLD of a rank of ``comm``."""
    members: Any = comm._communicator.transport.members
    return int(members[rank])
