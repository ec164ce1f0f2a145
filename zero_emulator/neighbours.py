"""What the stages of a pipeline send each other: activations one way, the gradients by them the other."""

from collectives.communicator import Communicator
from collectives.point_to_point import PointToPoint
from collectives.work import Work
from zero_emulator.layout import Array
from zero_emulator.pipeline import Receive, Send


class Neighbours:
    """A rank's messages to the ranks of other stages that work on the same rows.

    Each says for which chunk, micro-batch and iteration it is, and the receiver holds that against what it
    waits for: MessageMismatchError if it is another one. Those from one stage to another are received in the
    order in which they were sent, of both kinds, as orders of work promise.
    """

    def __init__(self, comm: Communicator) -> None:
        self._messages = PointToPoint(comm)
        self._under_way: list[Work] = []

    def send(self, message: Send, iteration: int, array: Array) -> None:
        """Put an array on its way; it is held until it has been taken, and must not change."""
        self._under_way = [work for work in self._under_way if not work.poll()]
        self._under_way.append(self._messages.send(array, message.peer, _name(message, iteration)))

    def receive(self, message: Receive, iteration: int, array: Array) -> None:
        """Wait for a message, which fills the array."""
        self._messages.receive(array, message.peer, _name(message, iteration)).wait()

    def finish(self) -> None:
        """Wait until everything that was sent has been taken."""
        while self._under_way:
            self._under_way.pop(0).wait()


def _name(message: Send | Receive, iteration: int) -> str:
    return (
        f"{message.what} of micro-batch {message.micro_batch} for chunk {message.chunk}, "
        f"iteration {iteration}"
    )
