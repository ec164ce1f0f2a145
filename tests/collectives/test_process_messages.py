"""How bytes travel between processes: whole, in order, and in pieces where one may not read another."""

import contextlib
import errno
import time
from typing import Any

import numpy as np
import pytest

from collectives.algorithms import ALGORITHMS
from collectives.communicator import Communicator
from collectives.ledger import Call, Label, Origin
from collectives.transports.base import Array, Messages, Transport, TransportError
from collectives.transports.checking import CheckingTransport
from collectives.transports.processes import memory, run_processes, wire
from collectives.transports.processes.kinds import OFFER, SMALL
from collectives.transports.processes.messages import ProcessMessages
from collectives.transports.processes.pieces import SLOT_BYTES, SLOTS

ORIGIN = Origin(Call(0, "test", "none", Label()), 0, 0)
LARGE = 3 * SLOTS * SLOT_BYTES + 5


def move(transport: Transport, sends: Messages, recvs: Messages) -> None:
    pending = transport.post(sends, recvs, 0, ORIGIN)
    assert transport.wait_until(lambda: transport.landed(pending), 20), transport.missing(pending)


def numbers(rank: int, size: int) -> Array:
    return ((np.arange(size) + 7 * rank) % 251).astype(np.uint8)


@pytest.mark.parametrize("may_read", [True, False], ids=["read", "in pieces"])
def test_large_messages_arrive_whole_between_all_ranks_at_once(may_read: bool) -> None:
    def body(transport: Transport) -> None:
        checked, others = CheckingTransport(transport), [r for r in range(3) if r != transport.rank]
        into = {peer: np.empty(LARGE, np.uint8) for peer in others}
        own = numbers(transport.rank, LARGE)
        move(checked, [(peer, own) for peer in others], list(into.items()))
        assert all((into[peer] == numbers(peer, LARGE)).all() for peer in others)

    run_processes(3, body, may_read=may_read)


@pytest.mark.parametrize("may_read", [True, False], ids=["read", "in pieces"])
def test_every_algorithm_that_leaves_a_sum_everywhere_gives_the_exact_one(may_read: bool) -> None:
    """In chunks, most of which are too large for a record."""
    size = 4 * 3001
    names = [name for name, collective in ALGORITHMS if collective == "all_reduce"]

    def body(transport: Transport) -> dict[str, bool]:
        comm = Communicator(CheckingTransport(transport), chunk_bytes=1 << 13)
        found = {}
        for name in names:
            result = np.empty(size, np.int64)
            comm.all_reduce(np.arange(size) + comm.rank, result, algorithm=name).wait()
            found[name] = bool((result == 4 * np.arange(size) + 6).all())
        return found

    assert run_processes(4, body, may_read=may_read) == [dict.fromkeys(names, True)] * 4


def test_where_reading_is_refused_messages_go_in_pieces(monkeypatch: Any) -> None:
    refusals: list[int] = []

    class Refusing:
        argtypes = restype = None

        def __call__(self, *_: object) -> int:
            refusals.append(1)
            memory.ctypes.set_errno(errno.EPERM)
            return -1

    class Library:
        process_vm_readv = Refusing()

        def prctl(self, *_: object) -> int:
            return -1

    monkeypatch.setattr(memory, "_libc", Library)

    def body(transport: Transport) -> int:
        into, peer = np.empty(LARGE, np.uint8), 1 - transport.rank
        for _ in range(2):
            move(transport, [(peer, numbers(transport.rank, LARGE))], [(peer, into)])
            assert (into == numbers(peer, LARGE)).all()
        return len(refusals)

    assert run_processes(2, body) == [1, 1], "who has been refused does not ask again"


def test_a_large_send_is_not_over_before_its_receive_is_posted() -> None:
    def body(transport: Transport) -> None:
        if transport.rank == 0:
            send = transport.post([(1, numbers(0, LARGE))], [], 0, ORIGIN)
            for _ in range(20):
                assert not transport.landed(send)
                time.sleep(0.005)
            assert transport.missing(send) == ([1], [])
        transport.exchange(None)
        if transport.rank == 0:
            assert transport.wait_until(lambda: transport.landed(send), 20)
        else:
            move(transport, [], [(0, into := np.empty(LARGE, np.uint8))])
            assert (into == numbers(0, LARGE)).all()

    run_processes(2, body)


@pytest.mark.parametrize("size", [2, 100_000], ids=["small", "large"])
def test_a_message_of_another_size_is_refused_with_both_sizes(size: int) -> None:
    line = f"rank 0 sends {size} bytes to rank 1, which expects {size + 1}"

    def body(transport: Transport) -> str:
        data = np.zeros(size + transport.rank, np.uint8)
        sends, recvs = ([(1, data)], []) if transport.rank == 0 else ([], [(0, data)])
        told = ""
        if transport.rank == 1 or size > wire.MOST_CARRIED:  # a small send is over at once
            with pytest.raises(TransportError) as caught:
                move(transport, sends, recvs)
            told = str(caught.value)
        else:
            move(transport, sends, recvs)
        return told

    told = run_processes(2, body)
    assert told[1] == line
    assert told[0] == (line if size > wire.MOST_CARRIED else "")


def test_what_a_full_pipe_has_no_room_for_is_held_back_and_loses_no_order() -> None:
    """Of three kinds: small messages, offers, and answers to them."""
    many, sizes = 300, (3000, wire.MOST_CARRIED, wire.MOST_CARRIED + 1)

    def body(transport: Transport) -> int:
        peer = 1 - transport.rank
        sent = [numbers(number, sizes[number % 3]) for number in range(many)]
        into = [np.empty(one.size, np.uint8) for one in sent]
        pending = transport.post([(peer, one) for one in sent], [], 0, ORIGIN)
        late = len([one for one in pending if not one.over])
        time.sleep(0.1)
        received = transport.post([], [(peer, one) for one in into], 0, ORIGIN)
        assert transport.wait_until(lambda: transport.landed(pending) and transport.landed(received), 20), (
            transport.missing(pending)
        )
        assert all((one == other).all() for one, other in zip(sent, into, strict=True))
        return late

    assert all(late > many / 3 for late in run_processes(2, body)), "the pipe was never full"


def test_a_rank_that_has_returned_has_told_all_it_had_to_tell() -> None:
    """The answers of two ranks are more than the pipe of the third has room for, who hears them later."""
    many = 1000

    def body(transport: Transport) -> None:
        data = np.zeros(wire.MOST_CARRIED + 1, np.uint8)
        if transport.rank == 0:
            pending = transport.post([(peer, data) for peer in (1, 2)] * many, [], 0, ORIGIN)
            time.sleep(0.5)
            assert transport.wait_until(lambda: transport.landed(pending), 3), transport.missing(pending)
        else:
            move(transport, [], [(0, data.copy())] * many)

    run_processes(3, body)


def test_what_is_held_back_is_not_overtaken(monkeypatch: Any) -> None:
    monkeypatch.setattr(wire, "_MANY", 5000)  # such that a read ends within a record
    data, count, told = np.zeros(700, np.uint8), 0, []
    with contextlib.closing(wire.Pipes(2)) as pipes:
        sender, receiver = wire.Wire(pipes, 0), wire.Wire(pipes, 1)
        while sender.all_sent:
            sender.tell(1, OFFER, serial=(count := count + 1))
            sender.carry(1, SMALL, data, context=0, tag=0)
        told += receiver.hear()
        assert not sender.carry(1, SMALL, data, context=0, tag=0), "there is room, and a queue"
        sender.tell(1, OFFER, serial=(count := count + 1))
        while not sender.all_sent or len(told) < count:
            told += receiver.hear()
        while heard := receiver.hear():
            told += heard
    assert [record.serial for record in told if record.kind == OFFER] == list(range(1, count + 1))
    assert all(record.data == data.tobytes() for record in told if record.kind == SMALL)


def test_splits_of_splits_that_overlap_never_mix_their_messages() -> None:
    def body(transport: Transport) -> list[int]:
        half = transport.split(transport.rank // 2, 0)
        assert half is not None
        only_here = half.split(0 if transport.rank < 2 else None, 0)  # the others make none
        across = transport.split(transport.rank % 2, 0)
        assert across is not None
        named = {0: transport, 10: half, 20: only_here, 30: across}
        parts = {name: part for name, part in named.items() if part is not None}
        pending = []
        for name, part in parts.items():
            peer = (part.rank + 1) % part.world_size
            data = np.full(1, name + transport.rank, np.uint8)
            pending.append((part, part.post([(peer, data)], [], 0, ORIGIN)))
        found = []
        for part in reversed(parts.values()):
            into = np.empty(1, np.uint8)
            move(part, [], [((part.rank - 1) % part.world_size, into)])
            found.append(int(into[0]))
        return found

    results = run_processes(4, body)
    assert results == [[32, 21, 11, 3], [33, 20, 10, 0], [30, 13, 1], [31, 12, 2]]


def test_a_rank_that_waits_looks_for_news_2000_times_a_second_at_most(monkeypatch: Any) -> None:
    """A look takes some 10 us: so nine tenths of its core are left to others."""
    looks: list[float] = []
    plain = ProcessMessages.advance
    monkeypatch.setattr(
        ProcessMessages, "advance", lambda self: (looks.append(time.monotonic()), plain(self))[1]
    )

    def body(transport: Transport) -> int:
        transport.exchange(None)
        looks.clear()
        start = time.monotonic()
        if transport.rank == 0:
            time.sleep(0.5)
        transport.exchange(None)
        return len([look for look in looks if look > start + 0.1])

    assert run_processes(2, body)[1] <= 0.4 * 2000 + 1
