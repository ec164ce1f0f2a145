"""The wrapped communicator, put together, and `wrap`, which makes one."""

from mpi4py import MPI

from collectives.mpi4py_comm.buffers import (
    BlockingCollectives,
    NonblockingCollectives,
    PersistentCollectives,
)
from collectives.mpi4py_comm.derived import DerivingComm
from collectives.mpi4py_comm.objects import ObjectCollectives
from collectives.mpi4py_comm.point_to_point import PointToPoint
from collectives.mpi4py_comm.tally import Tally
from collectives.mpi4py_comm.uncounted import UncountedCalls

PATIENCE = 3600.0
"""Seconds without news after which a wait ends: MPI has no limit, and ranks may compute for long."""


class CountedComm(
    BlockingCollectives,
    NonblockingCollectives,
    PersistentCollectives,
    ObjectCollectives,
    PointToPoint,
    DerivingComm,
    UncountedCalls,
):
    """An mpi4py communicator for any program that takes one.

    Its collectives, in all forms, are schedules of ours that travel on a duplicate; its point-to-point
    messages are MPI's. Both are written into ``ledger``. `not_counted` tells what else was called that may
    send; windows and files that are opened on it count nothing, and do not show there.

    Buffers are specified as in mpi4py, and faults in them raise what they raise there. Nonblocking and
    persistent collectives need MPI_THREAD_MULTIPLE, mpi4py's default.
    """


def wrap(
    comm: MPI.Intracomm | None = None, *, tally: Tally | None = None, time_limit: float = PATIENCE
) -> CountedComm:
    """The communicator, by default COMM_WORLD, as one whose collectives are ours and counted.

    Every rank of it calls this. ``tally``: that of another one, to count into the same ledger.
    """
    wrapped = CountedComm(MPI.COMM_WORLD if comm is None else comm)
    wrapped._set_up(Tally() if tally is None else tally, (), time_limit)
    return wrapped
