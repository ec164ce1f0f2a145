"""Any number of Communicators on one transport: what is in flight moves on, and never mixes."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from collectives.communicator import Communicator
from collectives.ledger import Ledger
from collectives.operators import Operator
from collectives.transports.base import TransportError
from collectives.transports.delaying import DelayingTransport
from collectives.transports.in_flight import Tags
from collectives.transports.metered import MeteredTransport
from collectives.work import CollectiveTimeoutError

MEETINGS: dict[str, Callable[[Communicator], Any]] = {
    "exchange": lambda comm: comm.exchange(comm.rank),
    "split": lambda comm: comm.split(0),
}


@pytest.mark.ranks(min=2)
@pytest.mark.few_sizes
@pytest.mark.parametrize("meeting", MEETINGS)
def test_works_move_on_while_a_rank_meets_the_others(run_ranks, meeting: str) -> None:
    def body(comm: Communicator) -> None:
        found = np.empty(comm.world_size, np.int64)
        work = comm.all_reduce(np.full(comm.world_size, comm.rank), found)
        if comm.rank == 0:
            work.wait()
            MEETINGS[meeting](comm)
        else:
            MEETINGS[meeting](comm)
            work.wait()
        assert (found == sum(range(comm.world_size))).all()

    run_ranks(body, time_limit=3, chunk_bytes=8, wrap=lambda inner: DelayingTransport(inner, 1))


@pytest.mark.ranks(min=2)
@pytest.mark.parametrize("wrapped", [False, True])
def test_two_communicators_on_one_transport_do_not_mix(run_ranks, wrapped: bool) -> None:
    def body(comm: Communicator) -> None:
        transport = MeteredTransport(comm.transport, Ledger()) if wrapped else comm.transport
        other = Communicator(transport, time_limit=3, check=False)
        flights = []
        for number in range(6):
            found = np.empty(comm.world_size, np.int64)
            chosen = (comm, other)[number % 2]
            flights.append((number, chosen.all_gather(np.array([10 * number + comm.rank]), found), found))
        for place in np.random.default_rng(comm.rank).permutation(6):
            number, work, found = flights[place]
            work.wait()
            assert found.tolist() == [10 * number + rank for rank in range(comm.world_size)]

    run_ranks(body, time_limit=3, check=False)


@pytest.mark.ranks(min=2)
def test_tags_taken_by_one_communicator_are_not_kept_by_another(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        comm.transport.tags = Tags(7)
        other = Communicator(comm.transport, time_limit=3, check=False)
        given, kept, found = np.array([comm.rank]), *np.empty((2, comm.world_size), np.int64)
        works = [comm.all_gather(given, np.empty(comm.world_size, np.int64)) for _ in range(3)]  # tags 0 to 5
        prepared = other.prepare("all_gather", given + 10, kept), other.prepare("all_gather", given, found)
        for work in works:
            assert work.done, "the second prepared call needs its tags"
            work.wait()
        for one in prepared:
            one.run()
        assert kept.tolist() == [10 + rank for rank in range(comm.world_size)]
        assert found.tolist() == list(range(comm.world_size))

    run_ranks(body, time_limit=3, check=False)


def test_a_call_that_needs_more_tags_than_are_left_is_refused_with_the_numbers(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        comm.transport.tags = Tags(3)
        block, whole = np.ones(1), np.empty(comm.world_size)
        comm.prepare("all_gather", block, whole).run()
        message = "a call needs 3 tags, and prepared collectives have left 2 of 4"
        comm.chunk_bytes = 4
        for call in (comm.all_gather, lambda *arrays: comm.prepare("all_gather", *arrays)):
            with pytest.raises(ValueError, match=message):
                call(block, whole)
        comm.chunk_bytes = None
        for _ in range(3):
            comm.all_gather(block, whole).wait()

    run_ranks(body, check=False)


@pytest.mark.ranks(min=2)
@pytest.mark.parametrize("check", [True, False])
def test_a_prepared_collective_in_flight_is_not_started_again(run_ranks, check: bool) -> None:
    def body(comm: Communicator) -> None:
        prepared = comm.prepare("all_gather", np.array([comm.rank]), np.empty(comm.world_size, np.int64))
        if comm.rank:
            comm.exchange(None)
            prepared.start().wait()
        else:
            work = prepared.start()
            for again in (prepared.start, prepared.run):
                with pytest.raises(
                    ValueError, match="ring all_gather #0 was started before, and is still in"
                ):
                    again()
            comm.exchange(None)
            work.wait()
        prepared.run()

    run_ranks(body, check=check)


@pytest.mark.ranks(min=2)
@pytest.mark.parametrize("how", ["call", "run"])
def test_after_a_time_limit_the_collective_stays_in_flight_and_may_be_awaited_again(
    run_ranks, how: str
) -> None:
    def body(comm: Communicator) -> None:
        found, given = np.empty(comm.world_size, np.int64), np.array([comm.rank])
        prepared = comm.prepare("all_gather", given, found)
        if comm.rank == 0:
            comm.time_limit = 0.05
            work = comm.all_gather(given, found) if how == "call" else None
            for _ in range(2 if work else 1):
                with pytest.raises(
                    CollectiveTimeoutError, match=r"rank 0 waited 0.05 s in ring all_gather #0"
                ):
                    work.wait() if work else prepared.run()
            comm.time_limit = 20
            comm.exchange("now")
            if work:
                work.time_limit = 20
                work.wait()
        else:
            comm.exchange("now")
            comm.all_gather(given, found).wait() if how == "call" else prepared.run()
        comm.exchange("done")
        assert found.tolist() == list(range(comm.world_size))

    run_ranks(body, check=False)


@pytest.mark.ranks(min=2)
def test_memory_that_a_failed_collective_still_awaits_is_held_until_it_has_landed(run_ranks) -> None:
    def fail(left: object, right: object, out: object) -> None:
        raise ZeroDivisionError

    def body(comm: Communicator) -> None:
        if comm.world_size != 2:
            return
        # Two lanes. Rank 0 meets the first message, and fails; the second is sent once it has forgotten all.
        in_flight = comm.transport.in_flight
        message = np.ones(4, np.uint8)
        if comm.rank == 0:
            output = np.zeros(2, np.int32)
            memory = weakref.ref(output)
            work = comm.reduce_scatter(np.ones(4, np.int32), output, operator=Operator("fails", fail))
            comm.exchange("posted")
            with pytest.raises(ZeroDivisionError):
                work.wait()
            del work, output
            gc.collect()
            assert memory() is not None, "a message may still be written there"
            assert len(in_flight.failed) == 1
            comm.exchange("failed")
            while in_flight.failed:
                in_flight.nudge_all()
            gc.collect()
            assert memory() is None, "held for ever"
        else:
            into = np.empty(8, np.uint8)
            recv = [comm.transport.post([], [(0, into[4 * k : 4 * k + 4])], 1 + k, None) for k in (0, 1)]
            comm.exchange("posted")
            sends = [comm.transport.post([(0, message)], [], 1, None)]
            comm.exchange("failed")
            sends.append(comm.transport.post([(0, message)], [], 2, None))
            assert comm.transport.wait_until(
                lambda: all(comm.transport.landed(one) for one in sends + recv), 5
            )

    run_ranks(body, check=False, chunk_bytes=4)


@pytest.mark.ranks(min=2)
def test_tags_of_a_failed_collective_are_not_used_again(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        comm.transport.tags = Tags(3)
        comm.time_limit = 0.05
        if comm.rank == 0:
            for _ in range(2):
                comm.all_gather(np.ones(1), np.empty(comm.world_size))
            with pytest.raises(TransportError, match=r"rank 0 waited 0.05 s for 2 collectives in flight"):
                comm.all_gather(np.ones(1), np.empty(comm.world_size))
        comm.time_limit = 20
        comm.exchange(None)

    run_ranks(body, check=False)


@pytest.mark.ranks(min=2)
def test_the_limit_of_a_part_is_its_own(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part = comm.split(0)
        assert part is not None
        part.time_limit = 1
        assert comm.time_limit == 20
        work = part.all_gather(np.ones(1), np.empty(comm.world_size))
        assert work.time_limit == 1
        work.wait()

    run_ranks(body, time_limit=20)
