"""Ranks as MPI processes: nonblocking point-to-point messages on a communicator of our own."""

import pickle
from numbers import Integral, Real
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.ledger import Origin
from collectives.transports.base import TIME_LIMIT, Array, Messages, Transport, TransportError
from collectives.transports.in_flight import CLOSED, InFlight, Tags

MESSAGE_LIMIT = 2**31 - 1
"""The largest count that an MPI call takes in every MPI version: larger messages are sent in pieces."""


_abandoned: list[MPI.Request] = []
"""Requests given up: MPI may still write the memory that they hold."""

_Requests = tuple[list[MPI.Request], Messages, Messages, Origin]
"""The requests of the receives, then of the sends; the sends and receives that they are of, and whose."""


class MPITransport(Transport):
    """One MPI rank. ``message_limit`` in bytes is for tests of messages above it.

    Holds a duplicate of ``comm``, by default of COMM_WORLD: no receive of the user's, even one with ANY_TAG,
    meets our messages. Every rank of it makes one; TransportError after ``limit`` seconds without the others.
    ValueError on all ranks if one has a message limit that MPI cannot keep, or another than the rest.
    """

    def __init__(
        self,
        comm: MPI.Comm | None = None,
        *,
        message_limit: int = MESSAGE_LIMIT,
        limit: float | None = TIME_LIMIT,
    ) -> None:
        theirs = MPI.COMM_WORLD if comm is None else comm
        _check_arguments(theirs, limit)
        self.rank, self.in_flight = theirs.rank, InFlight()
        own, request = theirs.Idup()
        self._wait(request, limit, "make a transport")
        self._set_up(own, message_limit)
        try:
            self._compare_limits(limit)
        except ValueError:
            self.close(limit)
            raise

    def _compare_limits(self, limit: float | None) -> None:
        """ValueError on all ranks unless they cut large messages into the same pieces."""
        own: Any = self._limit
        fits = isinstance(own, Integral) and 1 <= int(own) <= MESSAGE_LIMIT
        fault = f"has a message limit of {own!r} bytes: it goes from 1 to {MESSAGE_LIMIT}, in whole numbers"
        self.agree(None if fits else fault, limit)
        for rank, other in enumerate(limits := self.exchange(own, limit)):
            if other != limits[0]:
                raise ValueError(
                    f"rank 0 has a message limit of {limits[0]} bytes, rank {rank} of {other}: "
                    "give all the same"
                )

    def _set_up(self, comm: MPI.Comm, message_limit: int) -> None:
        self._comm, self._limit = comm, message_limit
        self.rank, self.world_size = comm.rank, comm.size
        group, world = comm.Get_group(), MPI.COMM_WORLD.Get_group()
        self.members = tuple(group.Translate_ranks(None, world))
        group.Free()
        world.Free()
        self.tags = Tags(int(comm.Get_attr(MPI.TAG_UB) or 32767))  # MPI promises no more than that

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> _Requests:
        # Receives first: a message that is expected goes straight to where it belongs.
        requests: list[MPI.Request] = []
        irecv, isend, limit = self._comm.Irecv, self._comm.Isend, self._limit
        for peer, data in recvs:
            if data.size <= limit:
                requests.append(irecv(data, peer, tag))
            else:
                requests += [irecv(piece, peer, tag) for piece in self._pieces(data)]
        for peer, data in sends:
            if data.size <= limit:
                requests.append(isend(data, peer, tag))
            else:
                requests += [isend(piece, peer, tag) for piece in self._pieces(data)]
        return requests, sends, recvs, origin

    def _pieces(self, data: Array) -> list[Array]:
        return [data[start : start + self._limit] for start in range(0, max(data.size, 1), self._limit)]

    def landed(self, pending: _Requests) -> bool:
        try:
            return MPI.Request.Testall(pending[0])
        except MPI.Exception as error:
            raise TransportError(self._failure(pending, error)) from error

    def _failure(self, pending: _Requests, error: MPI.Exception) -> str:
        """What has failed, as far as it is known: MPI does not say which of the messages that are over."""
        requests, _, recvs, (call, step, chunk) = pending
        over = iter([request == MPI.REQUEST_NULL for request in requests])
        suspects = {peer: data.size for peer, data in recvs for _ in self._pieces(data) if next(over)}
        faults = [f"rank {peer} sends more than the {size} bytes expected" for peer, size in suspects.items()]
        return (
            f"{self.tell(self.rank)} in {call}, step {step}, chunk {chunk}: "
            f"{' or '.join(faults) or f'MPI has failed ({error})'}: check=True tells which calls differ"
        )

    def missing(self, pending: _Requests) -> tuple[list[int], list[int]]:
        requests, sends, recvs, _ = pending
        late = iter([not request.Test() for request in requests])
        waits_for: tuple[set[int], set[int]] = set(), set()
        for peers, messages in zip(waits_for, (recvs, sends), strict=True):
            for peer, data in messages:
                for _ in self._pieces(data):
                    if next(late):
                        peers.add(peer)
        return sorted(waits_for[1]), sorted(waits_for[0])

    def split(self, color: int | None, key: int, limit: float | None = TIME_LIMIT) -> "MPITransport | None":
        self.exchange(None, limit)  # MPI's own split has no limit: let all ranks be there first
        part = self._comm.Split(MPI.UNDEFINED if color is None else color, key)
        if part == MPI.COMM_NULL:
            return None
        transport = MPITransport.__new__(MPITransport)  # the part is ours already: no other duplicate
        transport.in_flight = self.in_flight
        transport._set_up(part, self._limit)
        return transport

    def exchange(self, value: object, limit: float | None = TIME_LIMIT) -> list[Any]:
        # Nonblocking, because a blocking MPI call has no limit and spins while it waits.
        data = np.frombuffer(pickle.dumps(value), np.uint8)
        sizes = np.empty(self.world_size, np.int64)
        self._wait(self._comm.Iallgather(np.array([data.size]), sizes), limit)
        everything = np.empty(int(sizes.sum()), np.uint8)
        self._wait(self._comm.Iallgatherv(data, (everything, sizes)), limit)
        ends = sizes.cumsum()
        return [
            pickle.loads(everything[end - size : end].tobytes())
            for size, end in zip(sizes, ends, strict=True)
        ]

    def _wait(self, request: MPI.Request, limit: float | None, what: str = "exchange") -> None:
        if not self.wait_until(request.Test, limit):
            _abandoned.append(request)
            raise TransportError(f"{self.tell(self.rank)} waited {limit:g} s for the other ranks to {what}")

    def close(self, limit: float | None = TIME_LIMIT) -> None:
        super().close(limit)
        self._wait(self._comm.Ibarrier(), limit, "close")  # MPI's own Free may wait, without a limit
        self._comm.Free()
        self._comm = CLOSED


def _check_arguments(comm: Any, limit: Any) -> None:
    if isinstance(comm, MPI.Comm) and comm == MPI.COMM_NULL:
        raise ValueError("the communicator is COMM_NULL: this rank is not in it, and has no transport")
    if not isinstance(comm, MPI.Comm) or comm.Is_inter():
        raise ValueError(f"the communicator is of type {type(comm).__name__}: give an intracommunicator")
    if limit is not None and (not isinstance(limit, Real) or not float(limit) > 0):
        raise ValueError(f"a time limit of {limit!r} seconds: give a number above 0, or None for none")
