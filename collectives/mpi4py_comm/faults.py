"""Faults as a user of mpi4py knows them."""

from collections.abc import Iterator
from contextlib import contextmanager

from mpi4py import MPI

from collectives.transports.base import TransportError


@contextmanager
def as_mpi_raises() -> Iterator[None]:
    """What MPI has failed with in a message of ours is raised as it was, as from a call of MPI's own."""
    try:
        yield
    except TransportError as error:
        if not isinstance(error.__cause__, MPI.Exception):
            raise
        if error.__cause__.Get_error_class() == MPI.ERR_IN_STATUS:
            # Said of several messages at once; what can be wrong with ours is their length.
            raise MPI.Exception(MPI.ERR_TRUNCATE) from error
        raise error.__cause__ from error
