"""The three forms of an MPI collective on buffers, each made from what the collective is given."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from mpi4py import MPI

from collectives.mpi4py_comm.base import WrappedComm
from collectives.mpi4py_comm.operation import Operation
from collectives.mpi4py_comm.requests import settle_request, start_request

Read = Callable[..., Operation]
"""From the Communicator and the arguments of an MPI collective to what it is to do."""


def blocking(read: Read) -> Callable[..., None]:
    """The method that returns when the collective is done on this rank."""

    name = read.__name__.capitalize()

    def method(self: WrappedComm, *arguments: Any, **named: Any) -> None:
        with self._call(name) as communicator:
            operation = read(communicator, *arguments, **named)
            operation.start(communicator).wait()
            operation.store()

    return method


def nonblocking(read: Read) -> Callable[..., MPI.Request]:
    """The method that returns a request at once."""

    name = f"I{read.__name__}"

    def method(self: WrappedComm, *arguments: Any, **named: Any) -> MPI.Request:
        with self._call(name) as communicator:
            return start_request(communicator, read(communicator, *arguments, **named))

    return method


def persistent(read: Read) -> Callable[..., MPI.Prequest]:
    """The method that returns a request to be started; hints in an Info are taken, and not followed."""
    name = f"{read.__name__.capitalize()}_init"
    num_arguments = len(signature(read).parameters) - 1

    def method(
        self: WrappedComm, *arguments: Any, info: MPI.Info = MPI.INFO_NULL, **named: Any
    ) -> MPI.Prequest:
        with self._call(name) as communicator:
            operation = read(communicator, *arguments[:num_arguments], **named)
            return settle_request(communicator, operation)

    return method
