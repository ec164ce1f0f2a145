"""The MPI collectives that reduce: what each is given, as an operation of the Communicator.

Blocks are cut between elements, never inside one: so their sizes are always said.
"""

from typing import Any

from mpi4py import MPI

from collectives.blocks import even_cut
from collectives.communicator import IN_PLACE, Communicator
from collectives.mpi4py_comm.image import Image
from collectives.mpi4py_comm.lengths import gather_lengths
from collectives.mpi4py_comm.memory import is_in_place
from collectives.mpi4py_comm.message import Message
from collectives.mpi4py_comm.operation import Operation
from collectives.mpi4py_comm.operations import apart, check_root
from collectives.mpi4py_comm.operator_of import as_operator
from collectives.mpi4py_comm.specs import read_simple, whole_numbers


def reduce(
    communicator: Communicator, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM, root: int = 0
) -> Operation:
    check_root(communicator, root)
    if communicator.rank == root:
        return _reduce(communicator, "reduce", sendbuf, recvbuf, op, {"root": root})
    message = read_simple(sendbuf, writable=False)
    input = Image(message)
    options = {"root": root} | _options(op, message, _even(communicator, message))
    return Operation("reduce", (input.array, None), options, (input,))


def allreduce(communicator: Communicator, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> Operation:
    return _reduce(communicator, "all_reduce", sendbuf, recvbuf, op, {})


def _reduce(
    communicator: Communicator,
    collective: str,
    sendbuf: Any,
    recvbuf: Any,
    op: MPI.Op,
    rooted: dict[str, int],
) -> Operation:
    received = read_simple(recvbuf, writable=True)
    output = Image(received)
    options = rooted | _options(op, received, _even(communicator, received))
    if is_in_place(sendbuf):
        return Operation(collective, (IN_PLACE, output.array), options, (output,), (output,))
    input = Image(_like(received, read_simple(sendbuf, writable=False)))
    return Operation(collective, apart(input, output), options, (input,), (output,))


def reduce_scatter_block(
    communicator: Communicator, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM
) -> Operation:
    world_size = communicator.world_size
    if is_in_place(sendbuf):
        received = sent = read_simple(recvbuf, writable=True, blocks=world_size)
    else:
        received = read_simple(recvbuf, writable=True)
        sent = _like(received, read_simple(sendbuf, writable=False, blocks=world_size))
    counts = [received.piece.num_elements] * world_size
    return _reduce_scatter(sent.repeated(world_size), received, op, counts, copied=is_in_place(sendbuf))


def reduce_scatter(
    communicator: Communicator, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: MPI.Op = MPI.SUM
) -> Operation:
    received = read_simple(recvbuf, writable=True)
    in_place = is_in_place(sendbuf)
    sent = received if in_place else read_simple(sendbuf, writable=False)
    if recvcounts is None and not in_place:
        recvcounts = gather_lengths(communicator, received.piece.num_elements)
    counts = whole_numbers(recvcounts, communicator.world_size)
    own = counts[communicator.rank]
    if not in_place:
        _check_types(received, sent)
        _check_counts("send count", sent.piece.num_elements, "sum(counts)", sum(counts))
        _check_counts("receive count", received.piece.num_elements, f"counts[{communicator.rank}]", own)
    else:
        _check_counts("receive count", received.piece.num_elements, "sum(counts)", sum(counts))
        received = received.cut(own)
    return _reduce_scatter(sent, received, op, counts, copied=in_place)


def _reduce_scatter(
    sent: Message, received: Message, op: MPI.Op, counts: list[int], copied: bool
) -> Operation:
    # In place MPI leaves the other blocks as they were: so it works on a copy.
    input, output = Image(sent, copied=copied), Image(received)
    size = received.piece.datatype.Get_size()
    options = _options(op, received, [count * size for count in counts])
    return Operation("reduce_scatter", apart(input, output), options, (input,), (output,))


def scan(communicator: Communicator, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> Operation:
    return _scan(communicator, "scan", sendbuf, recvbuf, op, is_written=True)


def exscan(communicator: Communicator, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> Operation:
    return _scan(communicator, "exscan", sendbuf, recvbuf, op, is_written=communicator.rank > 0)


def _scan(
    communicator: Communicator, collective: str, sendbuf: Any, recvbuf: Any, op: MPI.Op, is_written: bool
) -> Operation:
    received = read_simple(recvbuf, writable=True)
    in_place = is_in_place(sendbuf)
    sent = received if in_place else _like(received, read_simple(sendbuf, writable=False))
    input, output = Image(sent, copied=in_place), Image(received)
    options = _options(op, received, _even(communicator, received))
    return Operation(collective, apart(input, output), options, (input,), (output,) if is_written else ())


def _options(op: MPI.Op, message: Message, sizes: list[int]) -> dict[str, Any]:
    return {"operator": as_operator(op, message.piece.datatype), "sizes": sizes}


def _even(communicator: Communicator, message: Message) -> list[int]:
    """An even cut of the elements, in bytes."""
    piece = message.piece
    size = piece.datatype.Get_size()
    return [count * size for count in even_cut(piece.num_elements, communicator.world_size)]


def _like(received: Message, sent: Message) -> Message:
    """What is sent, if it is as many of the same elements; ValueError otherwise, as in mpi4py."""
    _check_types(received, sent)
    _check_counts("send count", sent.piece.num_elements, "receive count", received.piece.num_elements)
    return sent


def _check_types(received: Message, sent: Message) -> None:
    if sent.piece.datatype != received.piece.datatype:
        raise ValueError("mismatch in send and receive MPI datatypes")


def _check_counts(what: str, one: int, other: str, count: int) -> None:
    if one != count:
        raise ValueError(f"mismatch in {what} {one} and {other} {count}")
