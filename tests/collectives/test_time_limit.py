"""What can hang ends in time, and says who waited for whom."""

import re
import time

import numpy as np
import pytest

from collectives.call_check import CallMismatchError
from collectives.communicator import IN_PLACE, Communicator
from collectives.point_to_point import MessageMismatchError, PointToPoint
from collectives.transports.base import Transport, TransportError
from collectives.transports.threads import run_threads
from collectives.work import CollectiveTimeoutError

pytestmark = pytest.mark.on_processes

LIMIT = 0.1


@pytest.mark.parametrize(
    ("check", "stage"), [(False, ""), (True, r" \(call_check\)")], ids=["data", "call check"]
)
@pytest.mark.ranks(min=2)
def test_a_wait_for_an_absent_rank_ends_and_names_rank_peer_step_and_collective(
    run_ranks, world_size: int, check: bool, stage: str
) -> None:
    absent = world_size - 1

    def body(comm: Communicator) -> str:
        message = ""
        if comm.rank != absent:
            comm.time_limit = LIMIT
            start = time.monotonic()
            work = comm.all_gather(np.ones(1), np.empty(world_size))
            with pytest.raises(CollectiveTimeoutError) as caught:
                work.wait()
            assert LIMIT <= time.monotonic() - start < LIMIT + 3
            message = str(caught.value)
        comm.time_limit = 20
        comm.exchange(None)
        return message

    messages = run_ranks(body, check=check)
    first = rf"rank 0 waited 0.1 s in ring all_gather #0{stage}, step 0, chunk 0: for rank {absent} to send"
    assert re.match(first, messages[0]), messages[0]
    assert all(f"rank {rank} waited" in messages[rank] for rank in range(absent))


@pytest.mark.ranks(min=2)
def test_a_slow_rank_within_the_limit_is_waited_for(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        if comm.rank == 0:
            time.sleep(0.05)
        found = np.empty(comm.world_size, np.int64)
        comm.all_gather(np.array([comm.rank]), found).wait()
        assert found.tolist() == list(range(comm.world_size))

    run_ranks(body)


def test_an_exchange_with_an_absent_rank_ends_too() -> None:
    def body(transport: object) -> None:
        comm = Communicator(transport, time_limit=LIMIT)  # type: ignore[arg-type]
        if comm.rank == 0:
            with pytest.raises(TransportError, match=r"rank 0 waited 0.1 s for the other ranks to exchange"):
                comm.exchange("early")

    start = time.monotonic()
    run_threads(2, body)
    assert time.monotonic() - start < LIMIT + 3


def test_what_goes_wrong_in_a_part_of_the_world_is_told_with_world_ranks() -> None:
    """Ranks 3 and 1 of the world, in this order, are ranks 0 and 1 of their part."""

    def body(transport: Transport) -> list[str]:
        comm = Communicator(transport, time_limit=20)
        part = comm.split(comm.rank % 2, -comm.rank)
        assert part is not None
        messages, told = PointToPoint(part), []
        if comm.rank == 1:
            part.time_limit = LIMIT
            with pytest.raises(CollectiveTimeoutError) as late:
                messages.receive(np.ones(1), 0, "it").wait()
            told.append(str(late.value))
        comm.exchange(None)
        part.time_limit = 20
        if comm.rank == 3:
            messages.send(np.ones(1), 1, "it").wait()
            messages.send(np.ones(1), 1, "another")
        if comm.rank == 1:
            with pytest.raises(MessageMismatchError) as mismatch:
                messages.receive(np.ones(1), 0, "that").wait()
            told.append(str(mismatch.value))
        if comm.rank % 2:
            with pytest.raises(CallMismatchError) as differ:
                part.all_reduce(IN_PLACE, np.ones(comm.rank)).wait()
            told.append(str(differ.value))
        return told

    late, mismatch, differ = run_threads(4, body)[1]
    assert late.startswith("rank 1 waited 0.1 s in")
    assert late.endswith("for rank 0 (world rank 3) to send")
    assert re.match(r"rank 1 receives .* from rank 0 \(world rank 3\), which sent ", mismatch)
    assert re.search(r": rank 0 \(world rank 3\) calls .*, rank 1 calls ", differ)
