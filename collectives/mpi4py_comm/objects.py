"""The collectives on Python objects, lower-case in mpi4py: pickled, their lengths sent ahead of them."""

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.choice import AUTO
from collectives.communicator import Communicator
from collectives.mpi4py_comm.base import WrappedComm
from collectives.mpi4py_comm.image import Bytes, cut
from collectives.mpi4py_comm.lengths import control, gather_lengths
from collectives.mpi4py_comm.operations import STRAIGHT, check_root

Combine = Callable[[Any, Any], Any]


class ObjectCollectives(WrappedComm):
    """Reductions take the objects in rank order, where mpi4py may take them in another."""

    def barrier(self) -> None:
        """Return once all ranks have called it."""
        with self._call("barrier") as communicator:
            communicator.barrier().wait()

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """The root's object, on every rank."""
        with self._call("bcast") as communicator:
            check_root(communicator, root)
            data = _dumped(obj) if communicator.rank == root else _nothing()
            length = np.array([data.size])
            with control(communicator):
                communicator.broadcast(length, root=root).wait()
            if communicator.rank != root:
                data = np.empty(int(length[0]), np.uint8)
            communicator.broadcast(data, root=root, algorithm=AUTO).wait()
        return _loaded(data)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Every rank's object in rank order, on the root; None elsewhere."""
        with self._call("gather") as communicator:
            check_root(communicator, root)
            return _gather(communicator, sendobj, root)

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """The object that the root has for this rank."""
        with self._call("scatter") as communicator:
            check_root(communicator, root)
            return _scatter(communicator, sendobj, root)

    def allgather(self, sendobj: Any) -> list[Any]:
        """Every rank's object in rank order, on every rank."""
        with self._call("allgather") as communicator:
            return _all_gather(communicator, sendobj)

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """The object that each rank has for this one, in rank order."""
        with self._call("alltoall") as communicator:
            rank, world_size = communicator.rank, communicator.world_size
            blocks = _dumped_each(sendobj, world_size)
            sent = np.array([block.size for block in blocks])
            received = np.empty_like(sent)
            with control(communicator):
                communicator.all_to_all(sent, received).wait()
            sizes: list[list[int | None]] = [[None] * world_size for _ in range(world_size)]
            sizes[rank][:] = sent.tolist()
            for sender in range(world_size):
                sizes[sender][rank] = int(received[sender])
            output = np.empty(int(received.sum()), np.uint8)
            communicator.all_to_all(np.concatenate(blocks), output, sizes=sizes, **STRAIGHT).wait()
        return _loaded_each(output, received.tolist())

    def reduce(self, sendobj: Any, op: Combine = MPI.SUM, root: int = 0) -> Any:
        """All ranks' objects, reduced, on the root; None elsewhere."""
        with self._call("reduce") as communicator:
            check_root(communicator, root)
            objects = _gather(communicator, sendobj, root)
        return None if objects is None else reduce(op, objects)

    def allreduce(self, sendobj: Any, op: Combine = MPI.SUM) -> Any:
        """All ranks' objects, reduced, on every rank."""
        with self._call("allreduce") as communicator:
            objects = _all_gather(communicator, sendobj)
        return reduce(op, objects)

    def scan(self, sendobj: Any, op: Combine = MPI.SUM) -> Any:
        """The objects of the ranks up to this one, reduced."""
        with self._call("scan") as communicator:
            objects = _gather(communicator, sendobj, 0)
            prefixes = None if objects is None else list(accumulate(objects, op))
            return _scatter(communicator, prefixes, 0)

    def exscan(self, sendobj: Any, op: Combine = MPI.SUM) -> Any:
        """The objects of the ranks before this one, reduced; None on rank 0."""
        with self._call("exscan") as communicator:
            objects = _gather(communicator, sendobj, 0)
            prefixes = None if objects is None else [None, *accumulate(objects[:-1], op)]
            return _scatter(communicator, prefixes, 0)


def _gather(communicator: Communicator, obj: Any, root: int) -> list[Any] | None:
    data = _dumped(obj)
    on_root = communicator.rank == root
    lengths = np.empty(communicator.world_size, np.int64) if on_root else None
    with control(communicator):
        sizes: list[int | None] = [1] * communicator.world_size
        communicator.gather(np.array([data.size]), lengths, root=root, sizes=sizes).wait()
    if lengths is None:
        sizes = [data.size if rank == communicator.rank else None for rank in range(communicator.world_size)]
        communicator.gather(data, None, root=root, sizes=sizes, **STRAIGHT).wait()
        return None
    output = np.empty(int(lengths.sum()), np.uint8)
    communicator.gather(data, output, root=root, sizes=lengths.tolist(), **STRAIGHT).wait()
    return _loaded_each(output, lengths.tolist())


def _scatter(communicator: Communicator, objects: Sequence[Any] | None, root: int) -> Any:
    blocks = _dumped_each(objects, communicator.world_size) if communicator.rank == root else None
    lengths = None if blocks is None else np.array([block.size for block in blocks])
    length = np.empty(1, np.int64)
    with control(communicator):
        sizes: list[int | None] = [1] * communicator.world_size
        communicator.scatter(lengths, length, root=root, sizes=sizes).wait()
    block = np.empty(int(length[0]), np.uint8)
    if blocks is None:
        sizes = [block.size if rank == communicator.rank else None for rank in range(communicator.world_size)]
        communicator.scatter(None, block, root=root, sizes=sizes, **STRAIGHT).wait()
    else:
        sizes = [one.size for one in blocks]
        communicator.scatter(np.concatenate(blocks), block, root=root, sizes=sizes, **STRAIGHT).wait()
    return _loaded(block)


def _all_gather(communicator: Communicator, obj: Any) -> list[Any]:
    data = _dumped(obj)
    lengths = gather_lengths(communicator, data.size)
    output = np.empty(sum(lengths), np.uint8)
    communicator.all_gather(data, output, sizes=lengths, algorithm=AUTO).wait()
    return _loaded_each(output, lengths)


def _dumped(obj: Any) -> Bytes:
    return np.frombuffer(bytearray(MPI.pickle.dumps(obj)), np.uint8)


def _dumped_each(objects: Sequence[Any] | None, world_size: int) -> list[Bytes]:
    """ValueError unless there is one for each rank, as in mpi4py."""
    found = [None] * world_size if objects is None else list(objects)
    if len(found) != world_size:
        raise ValueError(f"expecting {world_size} items, got {len(found)}")
    return [_dumped(obj) for obj in found]


def _loaded(data: Bytes) -> Any:
    return MPI.pickle.loads(data)


def _loaded_each(data: Bytes, lengths: list[int]) -> list[Any]:
    return [_loaded(part) for part in cut(data, lengths)]


def _nothing() -> Bytes:
    return np.empty(0, np.uint8)
