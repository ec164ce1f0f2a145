"""The buffer check must fire: engines that break the rules of memory in flight, and one that keeps them."""

from typing import Any

import numpy as np
import pytest

from collectives.communicator import IN_PLACE, Communicator
from collectives.engine import place
from collectives.ledger import Call, Label, Origin
from collectives.transports.base import Array, Transport
from collectives.transports.checking import BufferHazardError, CheckingTransport
from collectives.transports.delaying import DelayingTransport
from collectives.transports.threads import ThreadWorld

FIRST, SECOND = (Origin(Call(number, "all_gather", "ring", Label()), 0, 0) for number in (0, 1))


def pair() -> tuple[CheckingTransport, CheckingTransport, Array]:
    world = ThreadWorld(2)
    memory = np.arange(16, dtype=np.uint8)
    return CheckingTransport(world.transport(0)), CheckingTransport(world.transport(1)), memory


def test_memory_that_is_overwritten_while_it_is_sent_is_reported() -> None:
    sender, receiver, memory = pair()
    send = sender.post([(1, memory[:8])], [], 0, FIRST)
    memory[3] += 1  # an engine that reduces into what it is sending
    receiver.post([], [(0, np.empty(8, np.uint8))], 0, FIRST)
    with pytest.raises(
        BufferHazardError,
        match="rank 0: ring all_gather #0, step 0, chunk 0, to rank 1 was overwritten",
    ):
        sender.landed(send)


def test_a_receive_into_memory_that_is_being_sent_is_reported() -> None:
    sender, _, memory = pair()
    sender.post([(1, memory[:8])], [], 0, FIRST)
    with pytest.raises(
        BufferHazardError, match=r"from rank 1 shares memory with .* to rank 1, still in flight"
    ):
        sender.post([], [(1, memory[7:12])], 0, SECOND)


def test_a_send_of_memory_that_is_still_awaited_is_reported() -> None:
    sender, _, memory = pair()
    sender.post([], [(1, memory[4:8])], 0, FIRST)
    with pytest.raises(
        BufferHazardError, match=r"to rank 1 shares memory with .* from rank 1, still in flight"
    ):
        sender.post([(1, memory[:5])], [], 0, SECOND)


def test_two_receives_into_one_place_are_reported() -> None:
    sender, _, memory = pair()
    with pytest.raises(BufferHazardError, match="still in flight"):
        sender.post([], [(1, memory[:8]), (1, memory[:8])], 0, FIRST)


def test_a_split_watches_the_memory_of_the_whole_rank(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        assert isinstance(comm.transport, CheckingTransport)
        part = comm.transport.split(0, 0)
        assert isinstance(part, CheckingTransport)
        assert part.in_use is comm.transport.in_use

    run_ranks(body)


def test_one_memory_may_be_sent_twice_and_neighbours_may_move() -> None:
    sender, receiver, memory = pair()
    into = np.empty(16, np.uint8)
    sends = [sender.post([(1, memory[:8])], [(1, memory[8:])], 0, FIRST)]
    sends += [sender.post([(1, memory[:8])], [], 0, SECOND)]
    receives = [receiver.post([(0, np.zeros(8, np.uint8))], [(0, into[:8])], 0, FIRST)]
    receives += [receiver.post([], [(0, into[8:])], 0, SECOND)]
    assert all(sender.landed(one) for one in sends)
    assert all(receiver.landed(one) for one in receives)
    assert into.tolist() == [*range(8)] * 2


def test_memory_is_free_again_once_it_has_landed() -> None:
    sender, receiver, memory = pair()
    send = sender.post([(1, memory)], [], 0, FIRST)
    receive = receiver.post([], [(0, into := np.empty(16, np.uint8))], 0, FIRST)
    assert sender.landed(send)
    assert receiver.landed(receive)
    memory[:] = 0
    sender.post([], [(1, memory)], 0, SECOND)
    assert sender.landed(send), "asking again is allowed"
    assert into.tolist() == [*range(16)]


def test_memory_that_is_awaited_holds_no_number_until_it_has_arrived() -> None:
    sender, receiver, memory = pair()
    into = memory.copy()  # the very numbers that will come
    receive = receiver.post([], [(0, into[:8])], 0, FIRST)
    assert np.isnan(into[:8].view(np.float32)).all()
    assert into[8:].tolist() == memory[8:].tolist()
    sender.post([(1, memory[:8])], [], 0, FIRST)
    assert receiver.landed(receive)
    assert into.tolist() == memory.tolist()


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [2])
def test_an_engine_that_combines_before_arrival_is_caught_though_the_memory_held_the_right_numbers(
    run_ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hasty(*arguments: Any) -> Any:
        return tuple(one._replace(copies=one.copies + one.effects, effects=[]) for one in place(*arguments))

    def body(comm: Communicator) -> bool:
        def summed() -> list[float]:
            numbers = np.arange(4.0) + comm.rank
            comm.all_reduce(IN_PLACE, numbers).wait()
            return numbers.tolist()

        assert summed() == [1, 3, 5, 7], "the scratch memory holds the other rank's numbers from here on"
        comm.exchange("now")
        monkeypatch.setattr("collectives.caller.place", hasty)
        comm.exchange("patched")
        return summed() == [1, 3, 5, 7]

    assert not all(run_ranks(body, check=False))


@pytest.mark.ranks(min=2)
def test_an_input_changed_by_the_caller_while_in_flight_is_reported(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        size = comm.world_size
        numbers = np.arange(4 * size) + comm.rank
        work = comm.all_reduce(numbers, np.empty_like(numbers))
        comm.exchange(None)
        if comm.rank == 0:
            numbers += 1  # block size - 1 is on its way
            comm.transport.released = True  # type: ignore[attr-defined]
            with pytest.raises(BufferHazardError, match="was overwritten while it was in flight"):
                work.wait()
        comm.exchange(None)

    class Holding(DelayingTransport):
        """Nothing lands before the caller has had the time to do harm."""

        released = False

        def landed(self, pending):  # type: ignore[no-untyped-def]
            return self.released and super().landed(pending)

    def hold(inner: Transport) -> Transport:
        return Holding(inner)

    run_ranks(body, wrap=hold, check=False)
