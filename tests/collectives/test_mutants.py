"""A check earns trust by a mutant that it catches.

Each fault is planted in the real code, and the named check must fail. The same check passes on the code as it
is, so it is the fault that it sees.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from collectives import engine, offsets, plan
from collectives.algorithms import ALGORITHMS, Algorithm, ring
from collectives.blocks import even_cut
from collectives.communicator import IN_PLACE, Communicator
from collectives.ledger import Ledger, LedgerError, pair_messages
from collectives.offsets import BoundMove, Span
from collectives.promises import REDUCE_SCATTER
from collectives.schedule import Recv, Schedule, ScheduleError, Step
from collectives.transports.base import Transport
from collectives.transports.checking import CheckingTransport
from collectives.transports.delaying import DelayingTransport
from collectives.transports.in_flight import Tags
from collectives.transports.metered import MeteredTransport
from collectives.transports.threads import run_threads
from collectives.verify import verify

SIZE, COUNT = 4, 21
SIZES = even_cut(COUNT, SIZE)
Mutate = Callable[[pytest.MonkeyPatch], None]
CAUGHT = (AssertionError, ScheduleError, LedgerError, RuntimeError, TimeoutError)
"""What a check raises: BufferHazardError is an AssertionError, TransportError a RuntimeError."""


# The checks.


def on_ranks(body: Callable[[Communicator], Any], seed: int = 0, **settings: Any) -> list[Any]:
    settings = {"time_limit": 1.0, "check": False} | settings

    def on_rank(transport: Transport) -> Any:
        wrapped = DelayingTransport(MeteredTransport(CheckingTransport(transport), Ledger()), seed)
        return body(Communicator(wrapped, **settings))

    return run_threads(SIZE, on_rank)


def ledger(comm: Communicator) -> Ledger:
    return comm.transport._inner.ledger  # type: ignore[attr-defined, no-any-return]


def proof() -> None:
    for algorithm in ALGORITHMS.values():
        verify(algorithm, SIZE)


def numbers(in_place: bool = False, **settings: Any) -> None:
    def body(comm: Communicator) -> None:
        given = np.arange(COUNT) * (comm.rank + 1)
        found = given.copy() if in_place else np.full(COUNT, -1)
        argument: Any = IN_PLACE if in_place else given
        comm.all_reduce(argument, found).wait()
        assert found.tolist() == [10 * number for number in range(COUNT)]
        block = np.full(SIZES[comm.rank], -1)
        comm.reduce_scatter(np.arange(COUNT) * (comm.rank + 1), block).wait()
        start = sum(SIZES[: comm.rank])
        assert block.tolist() == [10 * (start + number) for number in range(len(block))]
        whole = np.full(COUNT, -1)
        comm.all_gather(block, whole).wait()
        assert whole.tolist() == [10 * number for number in range(COUNT)]

    on_ranks(body, **settings)


def numbers_in_place() -> None:
    numbers(in_place=True)


def numbers_in_chunks() -> None:
    numbers(chunk_bytes=8)


def inputs() -> None:
    def body(comm: Communicator) -> None:
        given = np.arange(COUNT) + comm.rank
        comm.all_reduce(given, np.empty_like(given)).wait()
        assert given.tolist() == list(range(comm.rank, COUNT + comm.rank))

    on_ranks(body)


def num_bytes() -> None:
    def body(comm: Communicator) -> None:
        block = np.empty(SIZES[comm.rank])
        comm.reduce_scatter(np.ones(COUNT), block).wait()
        assert ledger(comm).sent() == 8 * (COUNT - SIZES[comm.rank])

    on_ranks(body)


def pairs() -> None:
    def body(comm: Communicator) -> Any:
        comm.all_gather(np.ones(3), np.empty(3 * SIZE)).wait()
        return ledger(comm).entries

    pair_messages(on_ranks(body))


def works_in_flight() -> None:
    def body(comm: Communicator) -> None:
        flights = []
        for number in range(8):
            given, found = np.full(COUNT, number) * (comm.rank + 1), np.empty(COUNT, np.int64)
            if number % 2:  # in place needs scratch, out of place does not
                flights.append((number, comm.all_reduce(IN_PLACE, given), given))
            else:
                flights.append((number, comm.all_reduce(given, found), found))
        for place in np.random.default_rng(comm.rank).permutation(8):
            number, work, found = flights[place]
            work.wait()
            assert found.tolist() == [10 * number] * COUNT

    for seed in range(3):
        on_ranks(body, seed=seed)


def slots() -> None:
    """A schedule that keeps two foreign blocks in scratch, one for longer than the other."""

    def relay(rank: int, world_size: int) -> Schedule:
        yield from ring.reduce_scatter(rank, world_size)
        yield from ring.all_gather(rank, world_size)
        yield from ring.all_gather(rank, world_size)

    def body(comm: Communicator) -> None:
        block = np.empty(SIZES[comm.rank], np.int64)
        algorithm = Algorithm("relay", REDUCE_SCATTER, relay, commutative_only=True)
        comm.reduce_scatter(np.arange(COUNT) * (comm.rank + 1), block, algorithm=algorithm).wait()
        start = sum(SIZES[: comm.rank])
        assert block.tolist() == [10 * (start + number) for number in range(len(block))]

    on_ranks(body)


CHECKS = (
    proof,
    numbers,
    numbers_in_place,
    numbers_in_chunks,
    inputs,
    num_bytes,
    pairs,
    works_in_flight,
    slots,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_check_passes_on_the_code_as_it_is(check: Callable[[], None]) -> None:
    check()


# The mutants.


def with_algorithm(
    patch: pytest.MonkeyPatch, collective: str, schedule: Callable[[int, int], Schedule]
) -> None:
    mutant = Algorithm("ring", ALGORITHMS["ring", collective].collective, schedule, commutative_only=True)
    patch.setitem(ALGORITHMS, ("ring", collective), mutant)


def spoiled(good: Callable[[int, int], Schedule], spoil: Callable[[int, int, Any, Any], Step]) -> Any:
    def schedule(rank: int, world_size: int) -> Schedule:
        for number, (send, recv) in enumerate(good(rank, world_size)):
            yield spoil(rank, number, send, recv)

    return schedule


def wrong_block(patch: pytest.MonkeyPatch) -> None:
    # At both ends alike, so that every message is met: the numbers are wrong, and nothing hangs.
    def shift(rank: int, number: int, send: Any, recv: Any) -> Step:
        if number < 1:
            return send, recv
        return (
            send._replace(blocks=((send.blocks[0] + 1) % SIZE,)),
            recv._replace(blocks=((recv.blocks[0] + 1) % SIZE,)),
        )

    with_algorithm(patch, "reduce_scatter", spoiled(ring.reduce_scatter, shift))


def wrong_direction(patch: pytest.MonkeyPatch) -> None:
    def turn(rank: int, number: int, send: Any, recv: Any) -> Step:
        return send._replace(peer=recv.peer), recv._replace(peer=send.peer)

    with_algorithm(patch, "all_gather", spoiled(ring.all_gather, turn))


def reduce_left_out(patch: pytest.MonkeyPatch) -> None:
    def replace(rank: int, number: int, send: Any, recv: Any) -> Step:
        return send, recv._replace(combine=None) if (rank, number) == (2, 1) else recv

    with_algorithm(patch, "all_reduce", spoiled(ring.all_reduce, replace))


def all_reduce_sold_as_reduce_scatter(patch: pytest.MonkeyPatch) -> None:
    with_algorithm(patch, "reduce_scatter", ring.all_reduce)


def bytes_not_counted(patch: pytest.MonkeyPatch) -> None:
    post = MeteredTransport.post

    def half(self: Any, sends: Any, recvs: Any, tag: int, origin: Any) -> Any:
        pending = post(self, sends, recvs, tag, origin)
        if origin.step == 1:
            pending.entry.sends.clear()
        return pending

    patch.setattr(MeteredTransport, "post", half)


def tail_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offsets, "even_cut", lambda total, parts: (total // parts,) * parts)


def last_element_not_reduced(patch: pytest.MonkeyPatch) -> None:
    action = engine._action

    def shorter(move: BoundMove, typed: Any, operator: Any) -> Any:
        spans = (span and span._replace(stop=max(span.start, span.stop - 1)) for span in move)
        return action(BoundMove(*spans), typed, operator)  # type: ignore[arg-type]

    patch.setattr(engine, "_action", shorter)


def input_overwritten(patch: pytest.MonkeyPatch) -> None:
    action = engine._action

    def into_the_input(move: BoundMove, typed: Any, operator: Any) -> Any:
        actions = [action(move, typed, operator)]
        if move.right is not None and move.right.buffer == plan.INPUT:
            actions.append(action(BoundMove(move.right, move.target, None), typed, None))
        return lambda: [act() for act in actions]

    patch.setattr(engine, "_action", into_the_input)


def one_tag_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tags, "take", lambda self, number, settle: 0)


def one_scratch_for_all(patch: pytest.MonkeyPatch) -> None:
    def allocate(self: Any) -> Any:
        if not hasattr(self, "_only"):
            self._only = np.empty(1 << 12, np.uint8)
        return lambda num_bytes: self._only[:num_bytes]

    patch.setattr(Communicator, "allocate", property(allocate, lambda *_: None), raising=False)


def not_staged(patch: pytest.MonkeyPatch) -> None:
    receive = plan._Planner._receive

    def careless(self: Any, operation: Recv, sending: Any, written: Any, effects: Any) -> Any:
        return receive(self, operation._replace(combine=None), set(), set(), effects)

    patch.setattr(plan._Planner, "_receive", careless)


def slots_never_kept(patch: pytest.MonkeyPatch) -> None:
    init = plan._Planner.__init__

    def forgetful(self: Any, *arguments: Any) -> None:
        init(self, *arguments)
        self.last_use = dict.fromkeys(self.last_use, -1)

    patch.setattr(plan._Planner, "__init__", forgetful)


def operands_lost_in_scratch(patch: pytest.MonkeyPatch) -> None:
    span = offsets._Binder.span

    def overlapping(self: Any, region: Any) -> Span:
        found = span(self, region)
        return found if found.buffer else Span(0, 0, found.stop - found.start)

    patch.setattr(offsets._Binder, "span", overlapping)


def chunks_in_one_lane(patch: pytest.MonkeyPatch) -> None:
    walk = engine.walk

    def same_tag(rounds: Any, transport: Any, tag: int, call: Any, chunk: int) -> Any:
        return walk(rounds, transport, tag - chunk, call, chunk)

    patch.setattr("collectives.prepared.walk", same_tag)


MUTANTS: list[tuple[Mutate, Callable[[], None]]] = [
    (wrong_block, proof),
    (wrong_block, numbers),
    (wrong_direction, proof),
    (wrong_direction, numbers),
    (reduce_left_out, proof),
    (reduce_left_out, numbers),
    (all_reduce_sold_as_reduce_scatter, num_bytes),
    (bytes_not_counted, num_bytes),
    (bytes_not_counted, pairs),
    (tail_lost, numbers_in_chunks),
    (last_element_not_reduced, numbers),
    (input_overwritten, inputs),
    (one_tag_for_all, works_in_flight),
    (one_scratch_for_all, works_in_flight),
    (not_staged, numbers_in_place),
    (slots_never_kept, slots),
    (operands_lost_in_scratch, numbers),
    (chunks_in_one_lane, numbers_in_chunks),
]


@pytest.mark.parametrize(
    ("mutate", "check"), MUTANTS, ids=[f"{mutate.__name__}-{check.__name__}" for mutate, check in MUTANTS]
)
def test_the_check_catches_the_mutant(
    mutate: Mutate, check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    with pytest.raises(CAUGHT):
        check()


def test_the_proof_alone_would_sell_an_all_reduce_as_a_reduce_scatter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why bytes are counted: the result is right, and only its price is wrong."""
    all_reduce_sold_as_reduce_scatter(monkeypatch)
    proof()
    numbers()
