"""A communicator of this process with itself, not the user's: MPI's own means to pack and to signal."""

from functools import cache

from mpi4py import MPI


@cache
def itself() -> MPI.Intracomm:
    """The same one always: a duplicate, so that no receive of the user's meets what is sent on it."""
    return MPI.Intracomm(MPI.COMM_SELF).Dup()
