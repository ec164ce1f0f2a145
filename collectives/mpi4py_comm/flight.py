"""A collective in flight behind an MPI request: when it is done, its request is completed."""

import sys
from collections.abc import Callable

from collectives.communicator import Communicator
from collectives.mpi4py_comm.driver import DRIVER
from collectives.mpi4py_comm.faults import as_mpi_raises
from collectives.mpi4py_comm.operation import Operation
from collectives.transports.in_flight import Tags
from collectives.work import CollectiveTimeoutError, Work


class CollectiveFlight:
    """Nudged along with the Works: once its own is over, it stores what came and completes the request.

    ``complete``: does that, told whether the collective has failed.
    """

    def __init__(
        self,
        communicator: Communicator,
        operation: Operation,
        work: Work,
        complete: Callable[[bool], None],
    ) -> None:
        self.over, self.failure = False, None
        self._transport, self._limit = communicator.transport, communicator.time_limit
        self._operation, self._work, self._complete = operation, work, complete
        if not self.nudge():
            DRIVER.in_flight.works.append(self)

    tags_are_kept = False
    over: bool
    failure: Exception | None

    @property
    def tags(self) -> Tags:
        """Its Work's."""
        return self._work.tags

    def nudge(self) -> bool:
        """Complete the request if the Work is over; says whether it was."""
        if self.over or not self._work.over:
            return False
        try:
            with as_mpi_raises():
                self._work.wait()
            self._operation.store()
        except Exception as failure:
            self.failure = failure
            # MPI will say no more than that something has failed, if that.
            print(f"rank {self._transport.rank}: {self._work.call} failed: {failure}", file=sys.stderr)
        self._complete(self.failure is not None)
        self.over = True
        return True

    def landed(self) -> bool:
        """Whether no message of it is under way: its Work tells for itself."""
        return True

    def wait(self) -> None:
        """Until it is over, for as long as there is news within the time limit."""
        if not self._transport.wait_until(lambda: self.over, self._limit):
            raise CollectiveTimeoutError(
                f"rank {self._transport.rank} waited {self._limit:g} s in {self._work.describe_wait()}"
            )
