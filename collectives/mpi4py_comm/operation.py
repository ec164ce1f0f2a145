"""One call of an MPI collective, read: what a Communicator is to do, and with which messages."""

from dataclasses import dataclass, field
from typing import Any

from collectives.choice import AUTO
from collectives.communicator import IN_PLACE, Communicator
from collectives.mpi4py_comm.image import Image
from collectives.prepared import PreparedCollective
from collectives.work import Work

CHOSEN = {"algorithm": AUTO}
"""Unless an operation names one: by bytes and ranks, and in rank order where an operator does not commute."""


@dataclass(frozen=True)
class Operation:
    """A collective of the Communicator on images: ``reads`` are loaded before, ``writes`` stored after.

    ``arrays``: what its method takes by position.
    """

    collective: str
    arrays: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    reads: tuple[Image, ...] = ()
    writes: tuple[Image, ...] = ()

    def start(self, communicator: Communicator) -> Work:
        """The collective, in flight."""
        self.load()
        work: Work = getattr(communicator, self.collective)(*self.arrays, **CHOSEN | self.options)
        return work

    def prepare(self, communicator: Communicator) -> PreparedCollective:
        """The collective, settled, to be started often: load before each start."""
        arrays = (IN_PLACE, *self.arrays) if self.collective == "broadcast" else self.arrays
        return communicator.prepare(self.collective, *arrays, **CHOSEN | self.options)

    def load(self) -> None:
        """Bring the arrays up to what the user's memory holds."""
        for image in self.reads:
            image.load()

    def store(self) -> None:
        """Bring the user's memory up to what came."""
        for image in self.writes:
            image.store()
