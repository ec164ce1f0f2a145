"""The contract that every transport keeps, and what is special about threads."""

import time

import numpy as np
import pytest

from collectives.communicator import Communicator
from collectives.ledger import Call, Label, Origin
from collectives.transports.base import Array, Messages, Transport, TransportError
from collectives.transports.threads import ThreadWorld, run_threads

pytestmark = pytest.mark.on_processes

ORIGIN = Origin(Call(0, "test", "none", Label()), 0, 0)


def move(transport: Transport, sends: Messages, recvs: Messages, tag: int = 0) -> None:
    pending = transport.post(sends, recvs, tag, ORIGIN)
    end = time.monotonic() + 20
    while not transport.landed(pending):
        assert time.monotonic() < end, transport.missing(pending)
        transport.pause(0)
    assert transport.landed(pending), "asking again is allowed"
    assert transport.missing(pending) == ([], [])


def message(*values: int) -> Array:
    return np.array(values, np.uint8)


def empty(size: int = 1) -> Array:
    return np.full(size, 255, np.uint8)


@pytest.mark.ranks(min=2)
def test_messages_between_two_ranks_arrive_in_the_order_posted(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        into = [empty() for _ in range(5)]
        if comm.rank == 0:
            move(comm.transport, [(1, message(number)) for number in range(5)], [])
        elif comm.rank == 1:
            move(comm.transport, [], [(0, one) for one in into])
            assert [one[0] for one in into] == [0, 1, 2, 3, 4]

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_tags_keep_messages_apart_whatever_the_order(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        transport = comm.transport
        if comm.rank == 0:
            sends = [transport.post([(1, message(tag))], [], tag, ORIGIN) for tag in (1, 2)]
            while not all(transport.landed(pending) for pending in sends):
                transport.pause(0)
        elif comm.rank == 1:
            for tag in (2, 1):
                into = empty()
                move(transport, [], [(0, into)], tag)
                assert into[0] == tag

    run_ranks(body)


def test_everybody_sends_to_everybody_in_one_step(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        others = [peer for peer in range(comm.world_size) if peer != comm.rank]
        into = {peer: empty(3) for peer in others}
        sends = [(peer, message(comm.rank, peer, 7)) for peer in others]
        move(comm.transport, sends, [(peer, into[peer]) for peer in others])
        assert all(into[peer].tolist() == [peer, comm.rank, 7] for peer in others)

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_messages_of_no_bytes_and_steps_of_no_messages_are_over(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        move(comm.transport, [], [])
        if comm.rank == 0:
            move(comm.transport, [(1, empty(0))], [])
        elif comm.rank == 1:
            move(comm.transport, [], [(0, empty(0))])

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_missing_names_the_peers_on_each_side(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        transport = comm.transport
        if comm.rank == 0:
            pending = transport.post([], [(1, into := empty())], 0, ORIGIN)
            assert not transport.landed(pending)
            assert transport.missing(pending) == ([], [1])
            comm.exchange(None)
            while not transport.landed(pending):
                transport.pause(0)
            assert into[0] == 9
        else:
            comm.exchange(None)
            if comm.rank == 1:
                move(transport, [(0, message(9))], [])

    run_ranks(body)


def test_nothing_is_copied_on_the_way_in(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        right, left = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
        memory = np.full(9, 255, np.uint8)
        if comm.world_size > 1:
            move(comm.transport, [(right, message(1, 2, 3))], [(left, memory[3:6])])
            assert memory.tolist() == [255] * 3 + [1, 2, 3] + [255] * 3

    run_ranks(body)


def test_a_split_has_messages_of_its_own(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part = comm.transport.split(0, -comm.rank)
        assert part is not None
        assert part.members == tuple(reversed(range(comm.world_size)))
        assert part.rank == comm.world_size - 1 - comm.rank
        assert part.exchange(comm.rank) == list(part.members)
        if comm.world_size > 1 and comm.rank == 0:
            outer = comm.transport.post([(1, message(1))], [], 0, ORIGIN)
            move(part, [(part.world_size - 2, message(2))], [])
            while not comm.transport.landed(outer):
                comm.transport.pause(0)
        elif comm.rank == 1:
            inner, outer = empty(), empty()
            move(part, [], [(part.world_size - 1, inner)])  # the other was sent first
            move(comm.transport, [], [(0, outer)])
            assert (inner[0], outer[0]) == (2, 1)

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_large_and_odd_sizes_arrive_whole(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        for size in (1, 1023, 100_003):
            whole = (np.arange(size) % 251).astype(np.uint8)
            if comm.rank == 0:
                move(comm.transport, [(1, whole)], [])
            elif comm.rank == 1:
                into = empty(size)
                move(comm.transport, [], [(0, into)])
                assert (into == whole).all()

    run_ranks(body)


def test_an_exchange_hands_each_rank_objects_of_its_own(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        mine = [comm.rank]
        found = comm.exchange(mine)
        assert found[comm.rank] is not mine
        for one in found:
            one.append("scribbled")
        assert mine == [comm.rank]
        assert comm.exchange(mine) == [[rank] for rank in range(comm.world_size)]

    run_ranks(body)


# Threads only.


def test_a_send_is_not_over_before_its_receive_is_posted() -> None:
    world = ThreadWorld(2)
    sender, receiver = world.transport(0), world.transport(1)
    send = sender.post([(1, message(4))], [], 0, ORIGIN)
    assert not sender.landed(send)
    assert sender.missing(send) == ([1], [])
    into = empty()
    receive = receiver.post([], [(0, into)], 0, ORIGIN)
    assert sender.landed(send)
    assert receiver.landed(receive)
    assert into[0] == 4


def test_a_message_of_another_size_is_refused_with_both_sizes() -> None:
    world = ThreadWorld(2)
    world.transport(0).post([(1, message(1, 2))], [], 0, ORIGIN)
    with pytest.raises(TransportError, match="rank 0 sends 2 bytes to rank 1, which expects 3"):
        world.transport(1).post([], [(0, empty(3))], 0, ORIGIN)


def test_a_rank_that_raises_ends_the_waits_of_the_others() -> None:
    def body(transport: Transport) -> None:
        if transport.rank == 2:
            raise ZeroDivisionError("rank 2 has had enough")
        Communicator(transport).all_reduce(np.ones(3), np.empty(3)).wait()

    start = time.monotonic()
    with pytest.raises(ZeroDivisionError, match="had enough") as caught:
        run_threads(3, body)
    assert time.monotonic() - start < 5
    assert getattr(caught.value, "__notes__", ["on rank 2 of 3"]) == ["on rank 2 of 3"]


def test_a_rank_that_raises_ends_an_exchange_of_the_others() -> None:
    def body(transport: Transport) -> None:
        if transport.rank == 0:
            raise ZeroDivisionError
        with pytest.raises(TransportError, match="rank 0 raised ZeroDivisionError"):
            transport.exchange(1)

    with pytest.raises(ZeroDivisionError):
        run_threads(3, body)


@pytest.mark.parametrize("world_size", [0, -1])
def test_a_world_without_ranks_is_refused(world_size: int) -> None:
    with pytest.raises(ValueError, match=f"a world of {world_size} ranks: give 1 or more"):
        run_threads(world_size, lambda transport: None)


def test_results_come_in_rank_order() -> None:
    def body(transport: Transport) -> int:
        time.sleep(0.02 * (3 - transport.rank))
        return transport.rank

    assert run_threads(3, body) == [0, 1, 2]
