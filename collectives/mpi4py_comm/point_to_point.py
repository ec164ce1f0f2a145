"""Messages that the user sends alone: MPI's, and counted where they are sent, each as one call.

Only there: whom a receive is from is often known when it is over. So `pair_messages` is for the others.
"""

import time
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from mpi4py import MPI

from collectives.ledger import Call, Entry, Label, Origin
from collectives.mpi4py_comm.base import WrappedComm, world_rank
from collectives.mpi4py_comm.call_site import call_site
from collectives.mpi4py_comm.specs import read_simple

POINT_TO_POINT = "point_to_point"
"""Their collective, in the ledger."""


def buffer_bytes(spec: Any) -> int:
    """What a buffer specification comes to on the wire."""
    return read_simple(spec, writable=False).piece.num_bytes


def pickled_bytes(obj: Any) -> int:
    """What an object comes to on the wire."""
    return len(MPI.pickle.dumps(obj))


def counted(name: str, num_bytes: Callable[[Any], int]) -> Callable[..., Any]:
    """MPI's method of that name, counted once MPI has taken the message: it may have refused it."""
    plain = getattr(MPI.Intracomm, name)
    shape = signature(plain)

    @wraps(plain)
    def method(self: WrappedComm, *arguments: Any, **named: Any) -> Any:
        result = plain(self, *arguments, **named)
        _, message, dest, *_ = shape.bind(self, *arguments, **named).arguments.values()
        _count(self, name, dest, num_bytes(message))
        return result

    return method


def counted_at_start(name: str) -> Callable[..., MPI.Prequest]:
    """MPI's method of that name, whose request counts itself whenever it is started."""
    plain = getattr(MPI.Intracomm, name)
    shape = signature(plain)

    @wraps(plain)
    def method(self: WrappedComm, *arguments: Any, **named: Any) -> MPI.Prequest:
        _, message, dest, *_ = shape.bind(self, *arguments, **named).arguments.values()
        request = CountedPrequest(plain(self, *arguments, **named))
        request.comm, request.name, request.dest, request.message = self, name, dest, message
        return request

    return method


class CountedPrequest(MPI.Prequest):
    """A persistent send that is counted at each Start; Prequest.Startall goes past it."""

    comm: WrappedComm
    name: str
    dest: int
    message: Any

    def Start(self) -> None:
        """Send it once more."""
        super().Start()
        _count(self.comm, self.name, self.dest, buffer_bytes(self.message))


def _count(comm: WrappedComm, name: str, dest: int, num_bytes: int) -> None:
    if dest == MPI.PROC_NULL:
        return
    tally = comm.tally
    number = tally.counted[POINT_TO_POINT]
    tally.counted[POINT_TO_POINT] += 1
    call = Call(number, POINT_TO_POINT, name, Label(phase=call_site()))
    now = time.time()
    entry = Entry(Origin(call, 0, 0), [(world_rank(comm, dest), num_bytes)], [], now)
    entry.end = now
    tally.ledger.entries.append(entry)


class PointToPoint(WrappedComm):
    """Everything that sends. Receiving is MPI's own."""

    Send = counted("Send", buffer_bytes)
    Bsend = counted("Bsend", buffer_bytes)
    Ssend = counted("Ssend", buffer_bytes)
    Rsend = counted("Rsend", buffer_bytes)
    Isend = counted("Isend", buffer_bytes)
    Ibsend = counted("Ibsend", buffer_bytes)
    Issend = counted("Issend", buffer_bytes)
    Irsend = counted("Irsend", buffer_bytes)
    Sendrecv = counted("Sendrecv", buffer_bytes)
    Sendrecv_replace = counted("Sendrecv_replace", buffer_bytes)
    Isendrecv = counted("Isendrecv", buffer_bytes)
    Isendrecv_replace = counted("Isendrecv_replace", buffer_bytes)

    Send_init = counted_at_start("Send_init")
    Bsend_init = counted_at_start("Bsend_init")
    Ssend_init = counted_at_start("Ssend_init")
    Rsend_init = counted_at_start("Rsend_init")

    send = counted("send", pickled_bytes)
    bsend = counted("bsend", pickled_bytes)
    ssend = counted("ssend", pickled_bytes)
    isend = counted("isend", pickled_bytes)
    ibsend = counted("ibsend", pickled_bytes)
    issend = counted("issend", pickled_bytes)
    sendrecv = counted("sendrecv", pickled_bytes)
