"""What mpi4py takes as a message, read: which elements lie where.

A specification is a buffer; or [buffer, count], [buffer, type], [buffer, count, type], [buffer, (counts,
displs), type] or [buffer, counts, displs, type]. The rules, and the errors, are those of mpi4py.
"""

from operator import index
from typing import Any, cast

from mpi4py import MPI

from collectives.mpi4py_comm.memory import (
    datatype_of,
    find_datatype,
    find_memory,
    is_bottom,
    is_buffer,
)
from collectives.mpi4py_comm.message import Message, Piece


def read_simple(spec: Any, *, writable: bool, blocks: int = 1) -> Message:
    """One piece. Its count is of a block: where it must be inferred, the buffer holds so many of them."""
    buffer, counts, displs, datatype = _unpack(spec, (tuple, list))
    memory = find_memory(buffer, writable)
    kind = _datatype(buffer, datatype)
    displ = 0 if displs is None else index(displs)
    if displ < 0:
        raise ValueError(f"message: negative displacement {displ}")
    skip = displ * _extent(kind, "cannot handle displacement") if displ else 0
    if displ and skip > memory.num_bytes:
        raise ValueError(
            f"message: displacement {displ} out of bounds, "
            f"number of datatype entries {memory.num_bytes * displ // skip}"
        )
    if counts is None:
        count = _infer_count(kind, memory.num_bytes - skip)
        if count % max(blocks, 1):
            raise ValueError(
                f"message: cannot infer count, number of entries {count} is not a multiple of "
                f"required number of blocks {blocks}"
            )
        count //= max(blocks, 1)
    else:
        count = index(counts)
    if count < 0:
        raise ValueError(f"message: negative count {count}")
    if count > 0 and buffer is None:
        raise ValueError(f"message: buffer is None but count is {count}")
    return Message((Piece(memory.address + skip, count, kind),), memory)


def read_vector(spec: Any, *, writable: bool, blocks: int) -> Message:
    """A piece for each block, of a count and at a displacement of its own."""
    buffer, counts, displs, datatype = _unpack(spec, (tuple,))
    memory = find_memory(buffer, writable)
    kind = _datatype(buffer, datatype)
    if counts is None:
        total = _infer_count(kind, memory.num_bytes)
        counts = [total // blocks + (total % blocks > block) for block in range(blocks)]
    elif _is_integral(counts):
        counts = [index(counts)] * blocks
    counts = whole_numbers(counts, blocks)
    if displs is None:
        displs = [sum(counts[:block]) for block in range(blocks)]
    elif _is_integral(displs):
        displs = [index(displs) * block for block in range(blocks)]
    displs = whole_numbers(displs, blocks)
    extent = kind.Get_extent()[1] if any(counts) else 0
    pieces = [
        Piece(memory.address + displ * extent, _count(count), kind)
        for count, displ in zip(counts, displs, strict=True)
    ]
    return Message(tuple(pieces), memory)


def read_typed_vector(spec: Any, *, writable: bool, blocks: int) -> Message:
    """A piece for each block, of a datatype of its own and displaced by bytes: for Alltoallw."""
    counts: Any
    displs: Any
    if len(spec) == 2:
        (buffer, types), counts, displs = spec, None, None
    elif len(spec) == 3:
        buffer, (counts, displs), types = spec
    elif len(spec) == 4:
        buffer, counts, displs, types = spec
    else:
        raise ValueError("message: expecting 2 to 4 items")
    if is_bottom(buffer) and counts is None:
        raise ValueError("message: BOTTOM requires counts")
    if is_bottom(buffer) and displs is None:
        raise ValueError("message: BOTTOM requires displs")
    memory = find_memory(buffer, writable)
    if counts is None and displs is None:
        counts, displs = [1] * blocks, [0] * blocks
    if len(types) != blocks:
        raise ValueError(f"expecting {blocks} items, got {len(types)}")
    pieces = [
        Piece(memory.address + displ, _count(count), kind)
        for count, displ, kind in zip(
            whole_numbers(counts, blocks), whole_numbers(displs, blocks), types, strict=True
        )
    ]
    return Message(tuple(pieces), memory)


def _unpack(spec: Any, pairs: tuple[type, ...]) -> tuple[Any, Any, Any, Any]:
    """(buffer, counts, displs, datatype), of which all but the first may be None."""
    if is_buffer(spec):
        return spec, None, None, None
    if not isinstance(spec, (list, tuple)):
        raise TypeError("message: expecting buffer or list/tuple")
    counts = displs = datatype = None
    if len(spec) == 2:
        buffer, counts = spec
        if isinstance(counts, (MPI.Datatype, str)):
            counts, datatype = None, counts
    elif len(spec) == 3:
        buffer, counts, datatype = spec
    elif len(spec) == 4:
        buffer, counts, displs, datatype = spec
    else:
        raise ValueError("message: expecting 2 to 4 items")
    if len(spec) < 4 and isinstance(counts, pairs):
        counts, displs = cast("tuple[Any, Any]", counts)
    return buffer, counts, displs, datatype


def _datatype(buffer: Any, datatype: Any) -> MPI.Datatype:
    if datatype is None and not is_bottom(buffer):
        return datatype_of(buffer)
    return find_datatype(datatype)


def _extent(datatype: MPI.Datatype, what: str) -> int:
    if datatype == MPI.DATATYPE_NULL:
        raise ValueError(f"message: {what}, datatype is null")
    lower, extent = datatype.Get_extent()
    if extent <= 0:
        raise ValueError(f"message: {what}, datatype extent {extent} (lb:{lower}, ub:{lower + extent})")
    return extent


def _infer_count(datatype: MPI.Datatype, length: int) -> int:
    """How many elements fill so many bytes."""
    if length == 0:
        return 0
    extent = _extent(datatype, "cannot infer count")
    if length % extent:
        raise ValueError(
            f"message: cannot infer count, buffer length {length} is not a multiple of "
            f"datatype extent {extent}"
        )
    return length // extent


def whole_numbers(values: Any, blocks: int) -> list[int]:
    """One for each block."""
    numbers = [index(value) for value in values]
    if len(numbers) != blocks:
        raise ValueError(f"expecting {blocks} items, got {len(numbers)}")
    return numbers


def _count(count: int) -> int:
    if count < 0:
        raise MPI.Exception(MPI.ERR_COUNT)
    return count


def _is_integral(value: Any) -> bool:
    try:
        index(value)
    except TypeError:
        return False
    return True
