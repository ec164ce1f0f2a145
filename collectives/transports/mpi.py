"""Ranks as MPI processes: nonblocking point-to-point messages on a communicator of our own."""

import pickle
import time
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

from collectives.ledger import Origin
from collectives.transports.base import Array, Messages, Transport, TransportError

MESSAGE_LIMIT = 2**31 - 1
"""The largest count that an MPI call takes in every MPI version: larger messages are sent in pieces."""


class _Requests(NamedTuple):
    requests: list[MPI.Request]
    peers: list[int]
    recvs: int  # how many of the requests, the first ones, are receives


class MPITransport(Transport):
    """One MPI rank. ``message_limit`` in bytes is for tests of messages above it.

    Holds a duplicate of ``comm``: no receive of the user's, even one with ANY_TAG, meets our messages.
    """

    def __init__(self, comm: MPI.Comm | None = None, *, message_limit: int = MESSAGE_LIMIT) -> None:
        if not 1 <= message_limit <= MESSAGE_LIMIT:
            raise ValueError(f"a message limit of {message_limit} bytes: it goes from 1 to {MESSAGE_LIMIT}")
        self._comm = (comm or MPI.COMM_WORLD).Dup()
        self._limit = message_limit
        self.rank, self.world_size = self._comm.rank, self._comm.size
        self.members = tuple(self._comm.Get_group().Translate_ranks(None, MPI.COMM_WORLD.Get_group()))
        self.max_tag = int(self._comm.Get_attr(MPI.TAG_UB) or 32767)  # MPI promises no more than that

    def post(self, sends: Messages, recvs: Messages, tag: int, origin: Origin) -> _Requests:
        # Receives first: a message that is expected goes straight to where it belongs.
        requests: list[MPI.Request] = []
        peers: list[int] = []
        irecv, isend, limit = self._comm.Irecv, self._comm.Isend, self._limit
        for peer, data in recvs:
            for piece in (data,) if data.size <= limit else self._pieces(data):
                requests.append(irecv(piece, peer, tag))
                peers.append(peer)
        num_recvs = len(requests)
        for peer, data in sends:
            for piece in (data,) if data.size <= limit else self._pieces(data):
                requests.append(isend(piece, peer, tag))
                peers.append(peer)
        return _Requests(requests, peers, num_recvs)

    def _pieces(self, data: Array) -> tuple[Array, ...]:
        return tuple(data[start : start + self._limit] for start in range(0, data.size, self._limit))

    def landed(self, pending: _Requests) -> bool:
        return MPI.Request.Testall(pending.requests)

    def missing(self, pending: _Requests) -> tuple[list[int], list[int]]:
        late = [not request.Test() for request in pending.requests]
        recvs, sends = (
            sorted({peer for peer, is_late in zip(pending.peers[part], late[part], strict=True) if is_late})
            for part in (slice(pending.recvs), slice(pending.recvs, None))
        )
        return sends, recvs

    def split(self, color: int | None, key: int) -> "MPITransport | None":
        part = self._comm.Split(MPI.UNDEFINED if color is None else color, key)
        if part == MPI.COMM_NULL:
            return None
        transport = MPITransport(part, message_limit=self._limit)
        part.Free()
        return transport

    def exchange(self, value: object, limit: float | None = None) -> list[Any]:
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

    def _wait(self, request: MPI.Request, limit: float | None) -> None:
        start = time.monotonic()
        while not request.Test():
            waited = time.monotonic() - start
            if limit is not None and waited > limit:
                raise TransportError(f"rank {self.rank} waited {limit:g} s for the other ranks to exchange")
            self.pause(waited)

    def close(self) -> None:
        self._comm.Free()
