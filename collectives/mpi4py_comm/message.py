"""A message that was specified: which elements lie where."""

from typing import NamedTuple

from mpi4py import MPI

from collectives.mpi4py_comm.memory import Memory


class Piece(NamedTuple):
    """``num_elements`` of a datatype, one after the other from an address on."""

    address: int
    num_elements: int
    datatype: MPI.Datatype

    @property
    def num_bytes(self) -> int:
        """What travels: the elements without the gaps in and between them."""
        return self.num_elements * self.datatype.Get_size()


class Message(NamedTuple):
    """The pieces of a buffer that travel, in this order."""

    pieces: tuple[Piece, ...]
    memory: Memory

    @property
    def piece(self) -> Piece:
        """Its only one."""
        (piece,) = self.pieces
        return piece

    def repeated(self, blocks: int) -> "Message":
        """So many blocks of its one piece, one after the other."""
        piece = self.piece
        stride = piece.num_elements * piece.datatype.Get_extent()[1] if piece.num_elements else 0
        places = [piece.address + block * stride for block in range(blocks)]
        return Message(tuple(Piece(place, *piece[1:]) for place in places), self.memory)

    def cut(self, num_elements: int) -> "Message":
        """So many elements of its one piece."""
        return Message((self.piece._replace(num_elements=num_elements),), self.memory)


def is_dense(datatype: MPI.Datatype) -> bool:
    """Whether elements lie in memory as they travel. A derived type might name its parts in another order."""
    return datatype.is_predefined and datatype.Get_extent() == (0, datatype.Get_size())
