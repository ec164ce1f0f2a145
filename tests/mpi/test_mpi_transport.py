"""What only real ranks can show: messages in pieces, a user's own messages, and rest while waiting."""

import time
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

from collectives.communicator import IN_PLACE, Communicator
from collectives.transports.base import TransportError
from collectives.transports.mpi import MESSAGE_LIMIT, MPITransport


@pytest.mark.parametrize("message_limit", [104, 103, 7, 100])
def test_messages_above_the_limit_arrive_whole(run_ranks, message_limit: int) -> None:
    def body(comm: Communicator) -> None:
        count = 70 * comm.world_size + 5
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


@pytest.mark.parametrize("message_limit", [0, -1, MESSAGE_LIMIT + 1, 1.5, "x", None])
def test_a_limit_that_mpi_cannot_keep_is_refused_on_all_ranks(message_limit: Any) -> None:
    odd = MPI.COMM_WORLD.size - 1
    mine = message_limit if MPI.COMM_WORLD.rank == odd else 7
    with pytest.raises(
        ValueError, match=f"rank {odd} has a message limit of {message_limit!r} bytes: it goes from 1 to"
    ):
        MPITransport(message_limit=mine, limit=5)


@pytest.mark.ranks(min=2)
def test_limits_that_differ_between_ranks_are_refused_on_all_of_them(run_ranks) -> None:
    with pytest.raises(ValueError, match="rank 0 has a message limit of 8 bytes, rank 1 of 9: give all the"):
        MPITransport(message_limit=8 + MPI.COMM_WORLD.rank, limit=5)


@pytest.mark.parametrize("limit", [0, -1, float("nan"), "x"])
def test_what_is_no_time_limit_is_refused(limit: Any) -> None:
    with pytest.raises(ValueError, match=f"a time limit of {limit!r} seconds: give a number above 0"):
        MPITransport(limit=limit)


@pytest.mark.parametrize("comm", ["COMM_WORLD", 7])
def test_what_is_no_communicator_is_refused(comm: Any) -> None:
    with pytest.raises(ValueError, match=r"the communicator is of type .*: give an intracommunicator"):
        MPITransport(comm)


@pytest.mark.ranks(min=2)
def test_more_than_a_rank_expects_is_told_with_rank_peer_collective_and_step(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part = comm.split(comm.rank if comm.rank > 1 else 0)
        assert part is not None
        if comm.rank < 2:
            sizes = (8, 8) if comm.rank == 0 else (4, 4)
            work = part.all_gather(np.ones(sizes[0]), np.empty(sum(sizes)), sizes=sizes)
            if comm.rank == 0:
                work.wait()
            else:
                line = "rank 1 in ring all_gather #0, step 0, chunk 0: rank 0 sends more than the 32 bytes"
                with pytest.raises(TransportError, match=line):
                    work.wait()
        comm.exchange(None)

    run_ranks(body, check=False)


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
