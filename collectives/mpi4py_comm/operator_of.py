"""MPI's operators, built-in or the user's own, as operators on elements that lie packed in rows of bytes."""

from functools import partial

import numpy as np
from mpi4py import MPI

from collectives.mpi4py_comm.image import Bytes, Image
from collectives.mpi4py_comm.memory import Memory
from collectives.mpi4py_comm.message import Message, Piece, is_dense
from collectives.operators import Operator


def as_operator(op: MPI.Op, datatype: MPI.Datatype) -> Operator:
    """``op`` on packed elements of ``datatype``. Raises what MPI does where it is not for such elements."""
    nothing = [np.empty(0, np.uint8), 0, datatype]
    op.Reduce_local(nothing, nothing)
    combine = _combine if is_dense(datatype) else _combine_unpacked
    return Operator("mpi_op", partial(combine, op, datatype), op.Is_commutative())


def _combine(op: MPI.Op, datatype: MPI.Datatype, left: Bytes, right: Bytes, /, *, out: Bytes) -> None:
    # MPI leaves its result in the right operand. That may be ``out`` already, and so may the left one.
    count = _num_elements(left, datatype)
    into_right = right.ctypes.data == out.ctypes.data
    result = out if into_right else right.copy()
    op.Reduce_local([left, count, datatype], [result, count, datatype])
    if not into_right:
        np.copyto(out, result)


def _combine_unpacked(
    op: MPI.Op, datatype: MPI.Datatype, left: Bytes, right: Bytes, /, *, out: Bytes
) -> None:
    """For datatypes with gaps: the operator wants its elements as they lie in memory."""
    count = _num_elements(left, datatype)
    operands = [_unpacked(datatype, count, packed) for packed in (left, right)]
    op.Reduce_local(*([_first(image), count, datatype] for image in operands))
    operands[1].load()
    np.copyto(out, operands[1].array)


def _unpacked(datatype: MPI.Datatype, count: int, packed: Bytes) -> Image:
    """These elements as they would lie in memory, and the packed bytes beside them."""
    lower, true_extent = datatype.Get_true_extent()
    space = np.zeros(true_extent + max(0, count - 1) * datatype.Get_extent()[1], np.uint8)
    address = space.ctypes.data - lower
    memory = Memory(address, space.size, on_host=True, owner=space)
    image = Image(Message((Piece(address, count, datatype),), memory), copied=True)
    np.copyto(image.array, packed)
    image.store()
    return image


def _first(image: Image) -> MPI.buffer:
    return MPI.buffer.fromaddress(image.message.piece.address, 1)


def _num_elements(packed: Bytes, datatype: MPI.Datatype) -> int:
    """ValueError if one was cut in two, as by an algorithm of the user's table that cuts blocks in parts."""
    size = datatype.Get_size()
    if packed.size % max(size, 1):
        raise ValueError(
            f"{packed.size} bytes are no whole elements of {size} bytes: take an algorithm with whole blocks"
        )
    return packed.size // size if size else 0
