"""What MPI hands out that is no communicator of ours, and who is to blame after an empty message."""

import numpy as np
import pytest
from mpi4py import MPI

from collectives.communicator import Communicator
from collectives.ledger import Call, Label, Origin
from collectives.transports.mpi import MPITransport

ORIGIN = Origin(Call(0, "test", "none", Label()), 0, 0)


def test_a_rank_outside_a_communicator_is_refused_a_transport(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        with pytest.raises(ValueError, match="the communicator is COMM_NULL: this rank is not in it"):
            MPITransport(MPI.COMM_NULL)

    run_ranks(body)


@pytest.mark.ranks(min=3)
def test_an_empty_message_does_not_shift_the_blame(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        transport, empty, into = comm.transport, np.empty(0, np.uint8), np.empty(1, np.uint8)
        if comm.rank == 0:
            pending = transport.post([], [(1, empty), (2, into)], 0, ORIGIN)
            while transport.missing(pending)[1] != [2]:
                transport.pause(0)  # the empty one is on its way
        elif comm.rank == 1:
            pending = transport.post([(0, empty)], [], 0, ORIGIN)
        comm.exchange("blamed")
        if comm.rank == 2:
            pending = transport.post([(0, np.ones(1, np.uint8))], [], 0, ORIGIN)
        if comm.rank < 3:
            assert transport.wait_until(lambda: transport.landed(pending), 5)

    run_ranks(body)


def test_a_call_takes_tags_that_mpi_has(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        upper = MPI.COMM_WORLD.Get_attr(MPI.TAG_UB)
        assert comm.transport.tags.total == upper + 1
        highest = comm.transport.tags.keep(1, lambda: None)
        assert highest == upper
        right, left = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
        into = np.zeros(1, np.uint8)
        pending = comm.transport.post([(right, np.full(1, 7, np.uint8))], [(left, into)], highest, ORIGIN)
        assert comm.transport.wait_until(lambda: comm.transport.landed(pending), 5)
        assert into[0] == 7

    run_ranks(body)
