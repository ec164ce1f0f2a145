"""The MPI collectives that move blocks: what each is given, as an operation of the Communicator."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.communicator import IN_PLACE, Communicator
from collectives.mpi4py_comm.image import Image
from collectives.mpi4py_comm.memory import is_in_place
from collectives.mpi4py_comm.message import Message
from collectives.mpi4py_comm.operation import Operation
from collectives.mpi4py_comm.specs import read_simple, read_typed_vector, read_vector

STRAIGHT = {"algorithm": "direct"}
"""Where only two ranks know the size of a block, it goes straight from one to the other."""


def barrier(communicator: Communicator) -> Operation:
    return Operation("barrier")


def bcast(communicator: Communicator, buf: Any, root: int = 0) -> Operation:
    check_root(communicator, root)
    sends = communicator.rank == root
    image = Image(read_simple(buf, writable=not sends))
    reads, writes = ((image,), ()) if sends else ((), (image,))
    return Operation("broadcast", (image.array,), {"root": root}, reads, writes)


def gather(communicator: Communicator, sendbuf: Any, recvbuf: Any, root: int = 0) -> Operation:
    check_root(communicator, root)
    world_size = communicator.world_size
    output = None
    if communicator.rank == root:
        output = Image(read_simple(recvbuf, writable=True, blocks=world_size).repeated(world_size))
    return _gather(communicator, sendbuf, output, root, known=True)


def gatherv(communicator: Communicator, sendbuf: Any, recvbuf: Any, root: int = 0) -> Operation:
    check_root(communicator, root)
    output = None
    if communicator.rank == root:
        output = Image(read_vector(recvbuf, writable=True, blocks=communicator.world_size))
    return _gather(communicator, sendbuf, output, root, known=False)


def _gather(
    communicator: Communicator, sendbuf: Any, output: Image | None, root: int, known: bool
) -> Operation:
    if output is not None and is_in_place(sendbuf):
        options = {"root": root, "sizes": output.sizes} | ({} if known else STRAIGHT)
        return Operation("gather", (IN_PLACE, output.array), options, (output,), (output,))
    block = Image(read_simple(sendbuf, writable=False))
    options = {"root": root} | _sizes(communicator, block, output, known)
    if output is None:
        return Operation("gather", (block.array, None), options, (block,))
    return Operation("gather", apart(block, output), options, (block,), (output,))


def scatter(communicator: Communicator, sendbuf: Any, recvbuf: Any, root: int = 0) -> Operation:
    check_root(communicator, root)
    world_size = communicator.world_size
    blocks = None
    if communicator.rank == root:
        blocks = Image(read_simple(sendbuf, writable=False, blocks=world_size).repeated(world_size))
    return _scatter(communicator, blocks, recvbuf, root, known=True)


def scatterv(communicator: Communicator, sendbuf: Any, recvbuf: Any, root: int = 0) -> Operation:
    check_root(communicator, root)
    blocks = None
    if communicator.rank == root:
        blocks = Image(read_vector(sendbuf, writable=False, blocks=communicator.world_size))
    return _scatter(communicator, blocks, recvbuf, root, known=False)


def _scatter(
    communicator: Communicator, blocks: Image | None, recvbuf: Any, root: int, known: bool
) -> Operation:
    if blocks is not None and is_in_place(recvbuf):
        # The root's block stays where it is; a copy of it goes nowhere.
        unused = np.empty(blocks.sizes[root], np.uint8)
        options = {"root": root, "sizes": blocks.sizes} | ({} if known else STRAIGHT)
        return Operation("scatter", (blocks.array, unused), options, (blocks,))
    block = Image(read_simple(recvbuf, writable=True))
    options = {"root": root} | _sizes(communicator, block, blocks, known)
    if blocks is None:
        return Operation("scatter", (None, block.array), options, (), (block,))
    return Operation("scatter", apart(blocks, block), options, (blocks,), (block,))


def _sizes(communicator: Communicator, block: Image, blocks: Image | None, known: bool) -> dict[str, Any]:
    """The sizes as this rank knows them from its own block, and on the root from all of them."""
    (own,) = block.sizes
    if blocks is not None:
        check_alike(own, blocks.sizes[communicator.rank])
        sizes: Sequence[int | None] = blocks.sizes
    elif known:
        sizes = [own] * communicator.world_size
    else:
        sizes = [own if rank == communicator.rank else None for rank in range(communicator.world_size)]
    return {"sizes": sizes} | ({} if known else STRAIGHT)


def allgather(communicator: Communicator, sendbuf: Any, recvbuf: Any) -> Operation:
    world_size = communicator.world_size
    message = read_simple(recvbuf, writable=True, blocks=world_size)
    return _allgather(communicator, sendbuf, message.repeated(world_size))


def allgatherv(communicator: Communicator, sendbuf: Any, recvbuf: Any) -> Operation:
    message = read_vector(recvbuf, writable=True, blocks=communicator.world_size)
    return _allgather(communicator, sendbuf, message)


def _allgather(communicator: Communicator, sendbuf: Any, message: Message) -> Operation:
    output = Image(message)
    options = {"sizes": output.sizes}
    if is_in_place(sendbuf):
        return Operation("all_gather", (IN_PLACE, output.array), options, (output,), (output,))
    block = Image(read_simple(sendbuf, writable=False))
    check_alike(block.sizes[0], output.sizes[communicator.rank])
    return Operation("all_gather", apart(block, output), options, (block,), (output,))


def alltoall(communicator: Communicator, sendbuf: Any, recvbuf: Any) -> Operation:
    world_size = communicator.world_size
    output = Image(read_simple(recvbuf, writable=True, blocks=world_size).repeated(world_size))
    if is_in_place(sendbuf):
        input = Image(output.message, copied=True)
    else:
        input = Image(read_simple(sendbuf, writable=False, blocks=world_size).repeated(world_size))
    check_alike(input.array.size, output.array.size)
    return Operation("all_to_all", apart(input, output), {}, (input,), (output,))


def alltoallv(communicator: Communicator, sendbuf: Any, recvbuf: Any) -> Operation:
    return _exchange(communicator, read_vector, sendbuf, recvbuf)


def alltoallw(communicator: Communicator, sendbuf: Any, recvbuf: Any) -> Operation:
    return _exchange(communicator, read_typed_vector, sendbuf, recvbuf)


def _exchange(communicator: Communicator, read: Any, sendbuf: Any, recvbuf: Any) -> Operation:
    """Each pair knows the sizes of its own two blocks, and nobody else does."""
    rank, world_size = communicator.rank, communicator.world_size
    output = Image(read(recvbuf, writable=True, blocks=world_size))
    if is_in_place(sendbuf):
        input = Image(output.message, copied=True)
    else:
        input = Image(read(sendbuf, writable=False, blocks=world_size))
    check_alike(input.sizes[rank], output.sizes[rank])
    sizes: list[list[int | None]] = [[None] * world_size for _ in range(world_size)]
    sizes[rank][:] = input.sizes
    for sender in range(world_size):
        sizes[sender][rank] = output.sizes[sender]
    return Operation("all_to_all", apart(input, output), {"sizes": sizes} | STRAIGHT, (input,), (output,))


def check_root(communicator: Communicator, root: int) -> None:
    """What MPI raises where there is no such rank."""
    if not 0 <= root < communicator.world_size:
        raise MPI.Exception(MPI.ERR_ROOT)


def check_alike(sent: int, received: int) -> None:
    """What MPI raises where a rank sends itself more bytes than it receives, or fewer."""
    if sent != received:
        raise MPI.Exception(MPI.ERR_TRUNCATE)


def apart(input: Image, output: Image) -> tuple[Any, Any]:
    """Both arrays. What MPI raises where they are the same memory: IN_PLACE is for that."""
    if np.may_share_memory(input.array, output.array):
        advice = ValueError("input and output are in the same memory: give MPI.IN_PLACE for one of them")
        raise MPI.Exception(MPI.ERR_BUFFER) from advice
    return input.array, output.array
