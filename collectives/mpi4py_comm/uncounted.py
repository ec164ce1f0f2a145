"""What goes past the ledger: MPI does it, on communicators of its own, and the call is noted."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from mpi4py import MPI

from collectives.mpi4py_comm.base import WrappedComm


def uncounted(name: str) -> Callable[..., Any]:
    """MPI's method of that name. What it returns is MPI's too, and counts nothing."""
    plain = getattr(MPI.Intracomm, name)

    @wraps(plain)
    def method(self: WrappedComm, *arguments: Any, **named: Any) -> Any:
        self.tally.not_counted[name] += 1
        return plain(MPI.Intracomm(self), *arguments, **named)

    return method


class UncountedCalls(WrappedComm):
    """Communicators of other kinds, other worlds, partitioned messages, and what survives failures."""

    Create_cart = uncounted("Create_cart")
    Create_graph = uncounted("Create_graph")
    Create_dist_graph = uncounted("Create_dist_graph")
    Create_dist_graph_adjacent = uncounted("Create_dist_graph_adjacent")
    Create_intercomm = uncounted("Create_intercomm")
    Idup = uncounted("Idup")
    Idup_with_info = uncounted("Idup_with_info")
    Accept = uncounted("Accept")
    Connect = uncounted("Connect")
    Spawn = uncounted("Spawn")
    Spawn_multiple = uncounted("Spawn_multiple")
    Psend_init = uncounted("Psend_init")
    Precv_init = uncounted("Precv_init")
    if hasattr(MPI.Intracomm, "Agree"):  # new in MPI 5 and mpi4py 4.1
        Agree = uncounted("Agree")
        Iagree = uncounted("Iagree")
        Shrink = uncounted("Shrink")
        Ishrink = uncounted("Ishrink")
