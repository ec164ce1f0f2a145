"""The memory behind whatever mpi4py takes for a buffer: where it is, how long, and of what numbers."""

from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

from collectives.mpi4py_comm.dlpack import dlpack_code


class Memory(NamedTuple):
    """So many bytes at an address. Their ``owner`` is held for as long as somebody may touch them."""

    address: int
    num_bytes: int
    on_host: bool
    """Whether this process may touch it itself: of a GPU's memory and of BOTTOM only MPI knows how."""
    owner: object


def find_memory(buffer: Any, writable: bool) -> Memory:
    """The memory of a buffer, of BOTTOM or of None. Raises what mpi4py raises where there is none."""
    if is_bottom(buffer):
        return Memory(0, 0, on_host=False, owner=None)
    view = MPI.buffer.frombuffer(buffer, not writable)
    return Memory(view.address, view.nbytes, _is_on_host(buffer), (buffer, view))


def is_bottom(buffer: Any) -> bool:
    """Whether displacements are addresses: None stands for BOTTOM, as it does in mpi4py."""
    return buffer is None or buffer is MPI.BOTTOM


def is_in_place(buffer: Any) -> bool:
    """Whether a send or receive buffer stands for the other one: None does, too, as in mpi4py."""
    return buffer is None or buffer is MPI.IN_PLACE


def is_buffer(what: Any) -> bool:
    """Whether mpi4py takes it for a buffer rather than for a list of what describes one."""
    if hasattr(what, "__dlpack__") or hasattr(what, "__cuda_array_interface__"):
        return True
    try:
        memoryview(what).release()
    except TypeError:
        return False
    except (BufferError, ValueError):
        return True
    return True


def find_datatype(what: Any) -> MPI.Datatype:
    """The datatype, or the one with this character code. KeyError if there is none, as in mpi4py."""
    if isinstance(what, MPI.Datatype):
        return what
    try:
        return MPI.Datatype.fromcode(what)
    except ValueError:
        raise KeyError(f"cannot map {what!r} to MPI datatype") from None


def datatype_of(buffer: Any) -> MPI.Datatype:
    """What the buffer says itself that it holds."""
    if hasattr(buffer, "__cuda_array_interface__") and not _has_memory_view(buffer):
        code = np.dtype(buffer.__cuda_array_interface__["typestr"]).char
    elif _has_memory_view(buffer):
        code = memoryview(buffer).format
    else:
        code = dlpack_code(buffer.__dlpack__())
    if code.startswith(">") if np.little_endian else code.startswith("<"):
        raise BufferError(f"format string {code!r} with non-native byte order")
    return find_datatype(code.lstrip("@<>"))


def _has_memory_view(buffer: Any) -> bool:
    try:
        memoryview(buffer).release()
    except (TypeError, BufferError, ValueError):
        return False
    return True


def _is_on_host(buffer: Any) -> bool:
    return _has_memory_view(buffer) or not hasattr(buffer, "__cuda_array_interface__")
