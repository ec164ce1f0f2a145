"""What only real ranks can show: messages in pieces, a user's own messages, and rest while waiting."""

import time

import numpy as np
import pytest
from mpi4py import MPI

from collectives.communicator import IN_PLACE, Communicator
from collectives.transports.mpi import MESSAGE_LIMIT, MPITransport


@pytest.mark.parametrize("message_limit", [1024, 1023, 7, 1000])
def test_messages_above_the_limit_arrive_whole(run_ranks, message_limit: int) -> None:
    def body(comm: Communicator) -> None:
        count = 700 * comm.world_size + 5
        numbers = np.arange(count, dtype=np.int32) + comm.rank
        found = np.empty_like(numbers)
        comm.all_reduce(numbers, found).wait()
        comm.all_reduce(IN_PLACE, numbers).wait()
        shift = sum(range(comm.world_size))
        assert (found == np.arange(count) * comm.world_size + shift).all()
        assert (numbers == found).all()

    run_ranks(body, message_limit=message_limit)


@pytest.mark.ranks(min=2)
def test_a_split_keeps_the_message_limit(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part = comm.split(0, key=-comm.rank)
        assert part is not None
        found = np.empty(500 * comm.world_size)
        part.all_gather(np.full(500, float(comm.rank)), found).wait()
        assert (found == np.repeat(np.arange(comm.world_size)[::-1], 500)).all()

    run_ranks(body, message_limit=100)


@pytest.mark.parametrize("message_limit", [0, -1, MESSAGE_LIMIT + 1])
def test_a_limit_that_mpi_cannot_keep_is_refused(message_limit: int) -> None:
    with pytest.raises(ValueError, match=f"a message limit of {message_limit} bytes: it goes from 1 to"):
        MPITransport(message_limit=message_limit)


@pytest.mark.ranks(min=2)
def test_a_receive_of_the_users_own_is_never_met_by_our_messages(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        world = MPI.COMM_WORLD
        mine = np.full(1, -1)
        anything = world.Irecv(mine, MPI.ANY_SOURCE, MPI.ANY_TAG)
        found = np.empty(comm.world_size, np.int64)
        comm.all_gather(np.array([comm.rank]), found).wait()
        assert found.tolist() == list(range(comm.world_size))
        assert not anything.Test(), "a message of ours was stolen"
        assert mine[0] == -1
        comm.exchange(None)
        world.Send(np.array([100 + comm.rank]), (comm.rank + 1) % comm.world_size, 5)
        anything.Wait()
        assert mine[0] == 100 + (comm.rank - 1) % comm.world_size
        comm.exchange(None)

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_a_rank_that_waits_leaves_its_core_to_others(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        found = np.empty(comm.world_size)
        comm.exchange(None)
        if comm.rank == 0:
            time.sleep(0.5)
        used = time.process_time()
        comm.all_gather(np.ones(1), found).wait()
        used = time.process_time() - used
        assert used < 0.2, f"waiting half a second took {used:.2f} s of a core"

    run_ranks(body)
