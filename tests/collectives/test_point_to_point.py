"""Messages between two ranks: in order, under names that both ends agree on, every byte counted."""

import time
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ml_dtypes import bfloat16

from collectives.communicator import Communicator
from collectives.ledger import Call, Entry, Label, Ledger, Origin, pair_messages
from collectives.point_to_point import HEADER_BYTES, MessageMismatchError, PointToPoint
from collectives.transports.base import Transport, TransportError
from collectives.transports.checking import CheckingTransport
from collectives.transports.delaying import DelayingTransport
from collectives.transports.in_flight import Tags
from collectives.transports.threads import run_threads
from collectives.work import CollectiveTimeoutError

pytestmark = pytest.mark.few_sizes

LARGE = 70_000
"""Elements that no transport carries along with the record of the message."""


def other(comm: Communicator) -> int | None:
    """Ranks 0 and 1 talk; the others only make what they have to."""
    return 1 - comm.rank if comm.rank < 2 else None


def pieces(sender: int, number: int, count: int) -> Any:
    return np.arange(count) + 1000.0 * number + 100_000.0 * sender


@pytest.mark.on_processes
@pytest.mark.ranks(min=2)
@pytest.mark.parametrize("count", [3, LARGE])
@pytest.mark.parametrize("delayed", [False, True])
def test_many_messages_in_flight_both_ways_arrive_in_the_order_of_the_calls(
    run_ranks, count: int, delayed: bool
) -> None:
    def body(comm: Communicator) -> None:
        messages, peer = PointToPoint(comm), other(comm)
        if peer is None:
            return
        received = np.zeros((12, count))
        works = []
        for number in range(12):
            starts = [
                lambda n=number: messages.send(pieces(comm.rank, n, count), peer, f"message {n}"),
                lambda n=number: messages.receive(received[n], peer, f"message {n}"),
            ]
            works += [start() for start in (starts if comm.rank else reversed(starts))]
        for place in np.random.default_rng(comm.rank).permutation(len(works)):
            works[place].wait()
        for number in range(12):
            assert (received[number] == pieces(peer, number, count)).all()

    run_ranks(body, wrap=lambda inner: DelayingTransport(inner, 5) if delayed else inner)


@pytest.mark.ranks(min=2)
def test_a_message_from_every_rank_to_every_other_finds_its_place(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        messages = PointToPoint(comm)
        peers = [rank for rank in range(comm.world_size) if rank != comm.rank]
        found = np.zeros((comm.world_size, 4))
        works = [messages.receive(found[peer], peer, "numbers") for peer in peers]
        works += [messages.send(pieces(comm.rank, peer, 4), peer, "numbers") for peer in peers]
        for work in works:
            work.wait()
        assert all((found[peer] == pieces(peer, comm.rank, 4)).all() for peer in peers)

    run_ranks(body, wrap=lambda inner: DelayingTransport(inner, 2))


@pytest.mark.ranks(min=2)
def test_neither_a_lane_nor_another_point_to_point_is_waited_for(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        ways = [
            (messages, lane) for messages in (PointToPoint(comm, 2), PointToPoint(comm, 2)) for lane in (0, 1)
        ]
        found = np.zeros((4, 2), np.int64)
        if comm.rank == 0:
            for way, (messages, lane) in reversed([*enumerate(ways)]):
                messages.send(np.full(2, way), 1, "way", lane).wait()
        elif comm.rank == 1:
            works = [
                messages.receive(into, 0, "way", lane)
                for into, (messages, lane) in zip(found, ways, strict=True)
            ]
            for work in reversed(works):
                work.wait()
            assert found.tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]

    run_ranks(body)


@pytest.mark.on_processes
@pytest.mark.ranks(min=2)
def test_arrays_of_any_shape_and_dtype_arrive_and_nothing_beside_them_is_touched(
    run_ranks,
) -> None:
    def check(messages: PointToPoint, peer: int | None, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        size = int(np.prod(shape))
        memory = np.full(size + 4, 7).astype(dtype)
        array, wanted = memory[2 : 2 + size].reshape(shape), np.arange(size).astype(dtype)
        if peer == 1:
            array.reshape(-1)[:] = wanted
            messages.send(array, peer, "array").wait()
        elif peer == 0:
            messages.receive(array, peer, "array").wait()
            assert (array.reshape(-1) == wanted).all()
            assert (memory[[0, 1, -2, -1]] == np.full(4, 7).astype(dtype)).all()

    def body(comm: Communicator) -> None:
        messages = PointToPoint(comm)
        for dtype in ("float64", "float32", ">i4", "bool", "complex64", bfloat16):
            for shape in [(0,), (), (2, 3), (3, 0)]:
                check(messages, other(comm), shape, dtype)

    run_ranks(body)


RAW = Origin(Call(0, "test", "none", Label()), 0, 0)

MISMATCHES: dict[str, tuple[Any, str, str, str]] = {
    "name": (np.zeros(8), "micro-batch 3", '"micro-batch 2" (64 bytes of float64)', '"micro-batch 3" (64 '),
    "end of name": (
        np.zeros(8),
        "micro-batch 2\0",
        '"micro-batch 2" (64 bytes',
        '"micro-batch 2\0" (64 bytes',
    ),
    "larger": (np.zeros(9), "micro-batch 2", "(64 bytes of float64)", "(72 bytes of float64)"),
    "smaller": (np.zeros(0), "micro-batch 2", "(64 bytes of float64)", "(0 bytes of float64)"),
    "dtype": (np.zeros(8, np.int64), "micro-batch 2", "(64 bytes of float64)", "(64 bytes of int64)"),
    "byte order": (np.zeros(8, ">f8"), "micro-batch 2", "(64 bytes of float64)", "(64 bytes of >f8)"),
}


@pytest.mark.on_processes
@pytest.mark.ranks(min=2)
def test_a_message_that_is_not_the_expected_one_is_named_on_the_receiver_and_nothing_is_written(
    run_ranks,
) -> None:
    def send(messages: PointToPoint, array: Any, name: str) -> None:
        works = [messages.send(array, 1, name), messages.send(np.ones(8), 1, "the next")]
        messages.comm.exchange("received")
        for work in works:
            work.wait()

    def receive(messages: PointToPoint, array: Any, expected: str, found: str) -> None:
        memory = np.full(10, 5.0)
        works = [messages.receive(memory[1:9], 0, "micro-batch 2")]
        works.append(messages.receive(np.ones(8), 0, "the next"))
        for work in [*works, messages.receive(np.ones(8), 0, "the next")]:
            with pytest.raises(MessageMismatchError) as caught:
                work.wait()
            mine, _, sent = str(caught.value).partition(" from rank 0, which sent ")
            assert mine.startswith('rank 1 receives "micro-batch 2')
            assert expected in mine
            assert found in sent
        messages.comm.exchange("received")
        assert (memory == 5).all()
        sizes = [size for size in (array.nbytes, HEADER_BYTES, 64) if size]
        left = take_raw(messages, sizes)
        assert left.endswith(np.ones(8).tobytes())
        assert left.startswith(array.tobytes()), "no receive has met what was sent"

    def body(comm: Communicator) -> None:
        for array, name, expected, found in MISMATCHES.values():
            messages = PointToPoint(comm)
            if comm.rank == 0:
                send(messages, array, name)
            elif comm.rank == 1:
                receive(messages, array, expected, found)
            else:
                comm.exchange("received")

    run_ranks(body)


def take_raw(messages: PointToPoint, sizes: list[int]) -> bytes:
    """What rank 0 has sent and nobody has received, of these sizes: nothing may be left for another test."""
    transport, parts = messages.comm.transport, [np.empty(size, np.uint8) for size in sizes]
    pending = [transport.post([], [(0, part)], messages._tag, RAW) for part in parts]
    assert transport.wait_until(lambda: all(transport.landed(one) for one in pending), 5)
    return b"".join(part.tobytes() for part in parts)


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [3])
def test_a_mismatch_ends_the_waits_of_all_ranks(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        messages = PointToPoint(comm)
        if comm.rank == 2:
            with pytest.raises(TransportError, match="rank 1 failed"):
                messages.receive(np.ones(1), 1, "never sent").wait()
            raise TransportError("has been told")
        if comm.rank == 0:
            messages.send(np.ones(LARGE), 1, "one").wait()
        else:
            messages.receive(np.ones(LARGE), 0, "another").wait()

    start = time.monotonic()
    with pytest.raises(MessageMismatchError):
        run_ranks(body)
    assert time.monotonic() - start < 5


@pytest.mark.on_processes
@pytest.mark.ranks(min=2)
def test_a_wait_in_vain_names_the_message_the_peer_and_what_it_is_behind(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        messages, peer = PointToPoint(comm), other(comm)
        comm.time_limit = 0.05
        if peer == 0:
            works = [messages.receive(np.ones(2), 0, name) for name in ("early", "late")]
            first = r'"early", direct send #0, step 0, chunk 0: for rank 0 to send'
            for work, message in zip(works, (first, f'"late", direct send #1, behind {first}'), strict=True):
                with pytest.raises(CollectiveTimeoutError, match=f"^rank 1 waited 0.05 s in {message}$"):
                    work.wait()
        comm.time_limit = 20
        comm.exchange("waited")
        if peer == 1:
            works = [messages.send(np.ones(2), 1, name) for name in ("early", "late")]
        for work in works if peer is not None else []:
            work.time_limit = 20
            work.wait()

    run_ranks(body)


def test_a_send_that_nobody_receives_ends_in_time_and_says_so() -> None:
    def body(transport: Transport) -> None:
        comm = Communicator(transport, time_limit=0.05)
        messages = PointToPoint(comm)
        if comm.rank == 0:
            message = r'rank 0 waited 0.05 s in "it", direct send #0, step 0, chunk 0: for rank 1 to receive'
            with pytest.raises(CollectiveTimeoutError, match=message):
                messages.send(np.ones(2), 1, "it").wait()

    run_threads(2, body)


@pytest.mark.on_processes
@pytest.mark.ranks(min=2)
def test_every_byte_is_counted_at_both_ends_and_every_message_is_paired(run_metered) -> None:
    counts = (0, 1, 8, 3)

    def body(comm: Communicator, ledger: Ledger) -> list[Entry]:
        comm.axis = "pipeline"
        one, two = PointToPoint(comm, lanes=2), PointToPoint(comm)
        for talk, lane in ((one, 0), (one, 1), (two, 0)):
            works = []
            for count in counts:
                if comm.rank == 0:
                    comm.label = Label("training", 1, "forward", layer=2)
                    works.append(talk.send(np.ones(count), 1, "numbers", lane))
                elif comm.rank == 1:
                    comm.label = Label("training", 1, "backward")
                    works.append(talk.receive(np.ones(count), 0, "numbers", lane))
            for work in works:
                work.wait()
        if comm.rank == 0:
            assert ledger.sent("training") == 3 * 8 * sum(counts)
            assert ledger.sent("control") == 3 * HEADER_BYTES * len(counts)
        else:
            assert ledger.sent() == 0
        return [*ledger.entries]

    messages = pair_messages(run_metered(body))
    assert len(messages) == 3 * (2 * len(counts) - 1), "an empty message is its header"
    assert all((one.sender, one.receiver) == (0, 1) for one in messages)
    labels = {one.origin.call.label._replace(kind="training") for one in messages}
    assert labels == {Label("training", 1, "forward", 2, "pipeline")}, "those of the sender"
    origins = {one.origin for one in messages}
    assert len(origins) == len(messages)
    assert {(origin.call.collective, origin.call.algorithm) for origin in origins} == {("send", "direct")}


@pytest.mark.ranks(min=2)
def test_an_array_is_let_go_of_once_its_work_is_done(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        messages, peer, array = PointToPoint(comm), other(comm), np.ones(4)
        if peer is not None:
            memory = weakref.ref(array)
            work = messages.receive(array, peer, "it") if comm.rank else messages.send(array, peer, "it")
            del array
            work.wait()
            assert memory() is None

    run_ranks(body)


@pytest.mark.ranks(min=2)
def test_messages_and_collectives_in_flight_do_not_mix(run_metered) -> None:
    def body(comm: Communicator, ledger: Ledger) -> list[Entry]:
        part = comm.split(0, axis="pipeline")
        assert part is not None
        ring = [PointToPoint(one) for one in (comm, part)]
        right, left = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
        found, sums = np.zeros((2, 2)), np.zeros((2, 3))
        works = []
        for place, messages in enumerate(ring):
            works.append(messages.receive(found[place], left, "turn"))
            works.append(comm.all_reduce(np.full(3, 1.0), sums[place]))
            works.append(messages.send(np.full(2, comm.rank + 10.0 * place), right, "turn"))
        for place in np.random.default_rng(comm.rank).permutation(len(works)):
            works[place].wait()
        assert found.tolist() == [[left, left], [left + 10, left + 10]]
        assert (sums == comm.world_size).all()
        return [*ledger.entries]

    pair_messages(run_metered(body))


@pytest.mark.ranks(min=2)
def test_calls_that_need_their_tags_again_do_not_wait_for_a_message_of_later(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        comm.transport.tags = Tags(9)
        messages, peer, found = PointToPoint(comm), other(comm), np.zeros(2)
        work = messages.receive(found, 0, "later") if peer == 0 else None
        for _ in range(8):
            comm.barrier().wait()
        if peer == 1:
            work = messages.send(np.ones(2), 1, "later")
        if work:
            work.wait()
        assert peer != 0 or found.tolist() == [1, 1]

    run_ranks(body, time_limit=3)


@pytest.mark.ranks(min=2)
def test_what_is_sent_must_not_be_changed_before_it_is_done() -> None:
    def body(transport: Transport) -> None:
        comm = Communicator(CheckingTransport(transport), time_limit=5)
        messages = PointToPoint(comm)
        numbers = np.ones(2)
        if comm.rank == 0:
            work = messages.send(numbers, 1, "numbers")
            numbers[1] = 5
            comm.exchange("changed")
            with pytest.raises(AssertionError, match="send #0, step 1, chunk 0, to rank 1 was overwritten"):
                work.wait()
        else:
            comm.exchange("changed")
            messages.receive(numbers, 0, "numbers").wait()

    run_threads(2, body)


REFUSALS: dict[str, tuple[tuple[Any, ...], str]] = {
    "a peer that is not there": ((np.ones(1), 2, "it"), "rank 0 of 2 has no peer 2: give another rank"),
    "a peer below 0": ((np.ones(1), -1, "it"), "rank 0 of 2 has no peer -1"),
    "itself": ((np.ones(1), 0, "it"), "rank 0 of 2 has no peer 0"),
    "a peer that is no number": ((np.ones(1), "1", "it"), "rank 0 of 2 has no peer '1'"),
    "a lane that is not there": (
        (np.ones(1), 1, "it", 1),
        "there is no lane 1 among 1: they are counted from 0",
    ),
    "a list": (([1.0], 1, "it"), 'the message "it" is of type list: give a NumPy array of numbers'),
    "objects": ((np.array([None]), 1, "it"), 'the message "it" is an array of object'),
    "a long name": (
        (np.ones(1), 1, "x" * 106),
        r"is a header of 129 bytes, and there is room for 128: .* shorter by 1$",
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
@pytest.mark.parametrize("world_size", [2])
def test_what_cannot_be_sent_is_refused_with_the_numbers_and_is_not_counted(run_ranks, what: str) -> None:
    arguments, message = REFUSALS[what]

    def body(comm: Communicator) -> None:
        messages = PointToPoint(comm)
        if comm.rank == 0:
            for start in (messages.send, messages.receive):
                with pytest.raises(ValueError, match=message):
                    start(*arguments)
            work = messages.send(np.ones(1), 1, "x" * 105)
        else:
            work = messages.receive(np.ones(1), 0, "x" * 105)
        work.wait()
        assert work.call.number == 0

    run_ranks(body)


@pytest.mark.parametrize("world_size", [2])
def test_a_message_is_not_received_into_what_may_not_be_written(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        array = np.ones(1)
        array.flags.writeable = False
        with pytest.raises(ValueError, match='the message "it" is read-only'):
            PointToPoint(comm).receive(array, 1 - comm.rank, "it")

    run_ranks(body)


@pytest.mark.parametrize("lanes", [0, 1.5, None])
def test_there_is_a_lane_at_least(run_ranks, lanes: Any) -> None:
    def body(comm: Communicator) -> None:
        with pytest.raises(ValueError, match=f"{lanes} lanes: give 1 or more"):
            PointToPoint(comm, lanes=lanes)

    run_ranks(body)


def test_what_was_closed_sends_no_more(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part = comm.split(0)
        assert part is not None
        messages = PointToPoint(part)
        part.close()
        with pytest.raises(ValueError, match="this communicator is closed"):
            messages.send(np.ones(1), 0, "it")

    run_ranks(body)
