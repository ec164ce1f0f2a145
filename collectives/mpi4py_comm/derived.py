"""Communicators made from a wrapped one: wrapped as well, into the same ledger."""

from typing import Any, TypeVar

from mpi4py import MPI

from collectives.mpi4py_comm.base import WrappedComm

Made = TypeVar("Made", bound=WrappedComm)


class DerivingComm(WrappedComm):
    """All that returns an intracommunicator among ranks of this one."""

    def Clone(self) -> Any:
        """The same ranks, with the same attributes."""
        return self._adopt(MPI.Intracomm(self).Clone())

    def Dup(self, info: MPI.Info | None = None) -> Any:
        """The same ranks."""
        return self._adopt(MPI.Intracomm(self).Dup(info))

    def Dup_with_info(self, info: MPI.Info) -> Any:
        """The same ranks, with these hints."""
        return self._adopt(MPI.Intracomm(self).Dup_with_info(info))

    def Create(self, group: MPI.Group) -> Any:
        """The ranks of a group; COMM_NULL for the others."""
        return self._adopt(MPI.Intracomm(self).Create(group))

    def Create_group(self, group: MPI.Group, tag: int = 0) -> Any:
        """The ranks of a group, who alone make this call."""
        made = MPI.Intracomm(self).Create_group(group, tag)
        return self._wrapped(made, (*self._communicator._path, -1 - tag))

    def Split(self, color: int = 0, key: int = 0) -> Any:
        """The ranks of the same color, ordered by key; COMM_NULL where it is UNDEFINED."""
        return self._adopt(MPI.Intracomm(self).Split(color, key))

    def Split_type(self, split_type: int, key: int = 0, info: MPI.Info = MPI.INFO_NULL) -> Any:
        """The ranks that share something, such as memory."""
        return self._adopt(MPI.Intracomm(self).Split_type(split_type, key, info))

    def _adopt(self, made: Any) -> Any:
        """Of a call that all ranks make, and so count alike."""
        self._num_children += 1
        return self._wrapped(made, (*self._communicator._path, self._num_children))

    def _wrapped(self, made: Any, path: tuple[int, ...]) -> Any:
        if made == MPI.COMM_NULL:
            return MPI.COMM_NULL
        wrapped = type(self)(made)
        wrapped._set_up(self.tally, path, self._communicator.time_limit)
        return wrapped
