"""One end of a message between two ranks, in flight: a Work that says its name, and waits for its turn."""

from collections import deque
from collections.abc import Iterator

from collectives.communicator import Communicator
from collectives.ledger import Call
from collectives.work import Lane, Work


class Message(Work):
    """One end of a message in flight: a Work that says its name."""

    tags_are_kept = True

    def __init__(self, call: Call, comm: Communicator, stages: Iterator[list[Lane]], name: str) -> None:
        super().__init__(call, comm.transport, stages, comm.time_limit)
        self.name = name

    def describe_wait(self) -> str:
        return f'"{self.name}", {super().describe_wait()}'


class Reception(Message):
    """The end that receives: it waits until those that were started before it have come.

    So a header is never taken for another's payload, and where one has failed, all behind it fail with it.
    """

    def __init__(
        self,
        call: Call,
        comm: Communicator,
        stages: Iterator[list[Lane]],
        name: str,
        queue: "deque[Reception]",
    ) -> None:
        super().__init__(call, comm, stages, name)
        self._queue = queue
        queue.append(self)

    def _advance(self) -> bool:
        first = self._queue[0]
        if first.failure is not None:
            raise first.failure
        if first is not self:
            return False
        news = super()._advance()
        if self.done:
            self._queue.popleft()
        return news

    def describe_wait(self) -> str:
        first = self._queue[0]
        if first is self:
            return super().describe_wait()
        return f'"{self.name}", {self.call}, behind {first.describe_wait()}'
