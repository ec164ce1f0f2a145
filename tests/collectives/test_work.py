"""A collective in flight: awaited, polled, failed."""

import time
import weakref

import numpy as np
import pytest

from collectives.call_check import CallMismatchError
from collectives.communicator import IN_PLACE, Communicator
from collectives.ledger import Call, Label, Origin
from collectives.operators import Operator
from collectives.transports.delaying import DelayingTransport
from collectives.work import Work


def start_gather(comm: Communicator, value: int) -> tuple[Work, np.ndarray]:
    output = np.full(2 * comm.world_size, -1)
    return comm.all_gather(np.array([value, comm.rank]), output), output


def gathered(comm: Communicator, value: int) -> list[int]:
    return [number for rank in range(comm.world_size) for number in (value, rank)]


@pytest.mark.parametrize("seed", [1, 2])
def test_works_are_awaited_in_another_order_on_every_rank(run_ranks, seed: int) -> None:
    def body(comm: Communicator) -> None:
        flights = [start_gather(comm, value) for value in range(6)]
        order = np.random.default_rng(comm.rank).permutation(6)
        for number in order:
            work, output = flights[number]
            work.wait()
            assert work.done
            assert output.tolist() == gathered(comm, number)

    run_ranks(body, wrap=lambda transport: DelayingTransport(transport, seed))


def poll_until(work: Work) -> None:
    end = time.monotonic() + 20
    while not work.poll():
        assert time.monotonic() < end, "poll does not get it done"
        time.sleep(0)


def test_polling_alone_finishes_a_work(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        work, output = start_gather(comm, 3)
        poll_until(work)
        assert output.tolist() == gathered(comm, 3)
        work.wait()

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_works_are_polled_in_different_orders(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        (first, _), (second, _) = start_gather(comm, 1), start_gather(comm, 2)
        for work in (first, second) if comm.rank % 2 else (second, first):
            poll_until(work)

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_works_of_a_communicator_and_its_splits_are_awaited_in_different_orders(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part = comm.split(0, key=-comm.rank)
        assert part is not None
        (outer, _), (inner, _) = start_gather(comm, 1), start_gather(part, 2)
        for work in (outer, inner) if comm.rank % 2 else (inner, outer):
            work.wait()

    run_ranks(body, time_limit=5)


def test_a_work_that_was_polled_to_its_end_is_not_in_flight(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        work, _ = start_gather(comm, 1)
        poll_until(work)
        comm.exchange(None)
        part = comm.split(0)
        assert part is not None
        work, _ = start_gather(part, 1)
        poll_until(work)
        comm.exchange(None)
        part.close()

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_closing_is_refused_until_the_works_in_flight_are_over_and_leaves_nothing_behind(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part = comm.split(0)
        assert part is not None
        in_flight = part.transport.in_flight
        if comm.rank == 0:
            comm.exchange("the others have been refused")
        flights = [start_gather(part, value) for value in range(2)]
        outer, outer_output = start_gather(comm, 7)
        if comm.rank:
            for _ in range(2):
                with pytest.raises(
                    ValueError, match="2 collectives are in flight: wait for them before clos"
                ):
                    part.close()
            comm.exchange("the others have been refused")
        for value, (work, output) in enumerate(flights):
            work.wait()
            assert output.tolist() == gathered(comm, value), "the refusal has harmed nothing"
        part.close()
        assert all(work.tags is not part.transport.tags for work in in_flight.works)
        outer.wait()
        assert outer_output.tolist() == gathered(comm, 7), "the whole goes on without its part"
        assert in_flight.works == in_flight.failed == []

    run_ranks(body)


def broken(left: object, right: object, out: object) -> None:
    raise ZeroDivisionError("this operator has a bad day")


@pytest.mark.ranks(min=2)
def test_a_failed_work_stays_failed_and_leaves_the_others_alone(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        output = np.full(comm.world_size, -1)
        operator = Operator("broken", broken)
        fails = comm.all_reduce(np.arange(comm.world_size), output, operator=operator)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError, match="bad day"):
                fails.wait()
        with pytest.raises(ZeroDivisionError, match="bad day"):
            fails.poll()
        assert not fails.done
        work, gathers = start_gather(comm, 4)
        work.wait()
        assert gathers.tolist() == gathered(comm, 4)

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_a_failure_is_raised_where_its_own_work_is_awaited(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        output = np.full(comm.world_size, -1)
        operator = Operator("broken", broken)
        fails = comm.all_reduce(np.arange(comm.world_size), output, operator=operator)
        for value in range(2):
            work, gathers = start_gather(comm, value)
            work.wait()
            assert gathers.tolist() == gathered(comm, value)
        with pytest.raises(ZeroDivisionError, match="bad day"):
            fails.wait()
        comm.exchange(None)

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_a_mismatch_is_raised_again_and_moves_no_data(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        output = np.full(comm.world_size, -1.0 if comm.rank else -1, np.float64 if comm.rank else np.int64)
        work = comm.all_reduce(np.ones_like(output), output)
        for _ in range(3):
            with pytest.raises(CallMismatchError):
                work.wait()
        assert (output == -1).all()

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_what_a_call_works_in_is_held_until_its_work_is_found_done(run_ranks) -> None:
    """And not until its last message lands, at a moment that differs from run to run."""

    def body(comm: Communicator) -> None:
        held: list[weakref.ref[np.ndarray]] = []

        def allocate(num_bytes: int) -> np.ndarray:
            memory = np.empty(num_bytes, np.uint8)
            held.append(weakref.ref(memory))
            return memory

        comm.allocate = allocate
        values = np.arange(3.0 * comm.world_size)
        first, second = (comm.all_reduce(IN_PLACE, values.copy()) for _ in range(2))
        assert comm.transport.wait_until(lambda: first.over and second.over, 20)
        assert [ref() is None for ref in held] == [False, False]
        second.wait()
        assert [ref() is None for ref in held] == [False, True]
        poll_until(first)
        assert [ref() is None for ref in held] == [True, True]

    run_ranks(body)


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [2])
def test_a_landed_message_holds_no_memory(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        data = np.zeros(1, np.uint8)
        sends, recvs = ([(1, data)], []) if comm.rank == 0 else ([], [(0, data)])
        origin = Origin(Call(0, "test", "none", Label()), 0, 0)
        pending = comm.transport.post(sends, recvs, 0, origin)
        assert comm.transport.wait_until(lambda: comm.transport.landed(pending), 20)
        del sends, recvs
        memory = weakref.ref(data)
        del data
        assert memory() is None

    run_ranks(body)
