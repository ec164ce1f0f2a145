"""A message as one row of bytes, the form in which it travels: the memory itself, or a packed copy of it."""

from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from collectives.mpi4py_comm.itself import itself
from collectives.mpi4py_comm.message import Message, Piece, is_dense

Bytes = npt.NDArray[np.uint8]


class Image:
    """The bytes of a message, ``array``, of which piece i has ``sizes[i]``.

    Where the pieces lie without gaps in our own memory the array is that memory, and nothing is copied. Else
    ``load`` packs them and ``store`` puts them back: MPI does both, which knows every datatype and memory.
    """

    def __init__(self, message: Message, *, copied: bool = False) -> None:
        """``copied``: the array is not to be the memory in any case."""
        self.message = message
        self.sizes = [piece.num_bytes for piece in message.pieces]
        self._is_view = not copied and _without_gaps(message)
        self.array = _view(message) if self._is_view else np.empty(sum(self.sizes), np.uint8)

    def load(self) -> None:
        """Bring the array up to what the memory holds."""
        for piece, part in self._copied_parts():
            itself().Sendrecv(_spec(piece), 0, 0, [part, MPI.PACKED], 0, 0)

    def store(self) -> None:
        """Bring the memory up to what the array holds."""
        for piece, part in self._copied_parts():
            itself().Sendrecv([part, MPI.PACKED], 0, 0, _spec(piece), 0, 0)

    def _copied_parts(self) -> list[tuple[Piece, Bytes]]:
        if self._is_view:
            return []
        return [
            (piece, part)
            for piece, part in zip(self.message.pieces, cut(self.array, self.sizes), strict=True)
            if part.size
        ]


def cut(array: Bytes, sizes: list[int]) -> list[Bytes]:
    """The array in parts of these sizes."""
    return [array[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


def _spec(piece: Piece) -> Any:
    # mpi4py asks only that there be a buffer: the datatype says how far it is read or written.
    memory = MPI.buffer.fromaddress(piece.address, 1) if piece.address else MPI.BOTTOM
    return [memory, piece.num_elements, piece.datatype]


def _without_gaps(message: Message) -> bool:
    full = [piece for piece in message.pieces if piece.num_elements]
    if full and not message.memory.on_host:
        return False
    return all(is_dense(piece.datatype) for piece in full) and all(
        one.address + one.num_bytes == other.address for one, other in pairwise(full)
    )


def _view(message: Message) -> Bytes:
    full = [piece for piece in message.pieces if piece.num_elements]
    if not full:
        return np.empty(0, np.uint8)
    num_bytes = sum(piece.num_bytes for piece in full)
    # May be written in any case: the engine asks that of a broadcast's buffer, and of no root writes it.
    memory: Any = MPI.buffer.fromaddress(full[0].address, num_bytes)
    return np.frombuffer(memory, np.uint8)
