"""Every byte counted, at both ends, and equal to the closed forms."""

import time
from typing import Any

import numpy as np
import pytest

from collectives.algorithms import ALGORITHMS
from collectives.blocks import even_cut
from collectives.communicator import IN_PLACE, Communicator
from collectives.ledger import Entry, Ledger, LedgerError, pair_messages
from collectives.verify import verify


def counted(ledger: Ledger) -> tuple[int, int]:
    sent = sum(size for entry in ledger.entries for _, size in entry.sends)
    return sent, sum(size for entry in ledger.entries for _, size in entry.recvs)


def closed_form(collective: str, sizes: tuple[int, ...], rank: int) -> tuple[int, int]:
    total, size = sum(sizes), len(sizes)
    before, own, after = sizes[rank - 1], sizes[rank], sizes[(rank + 1) % size]
    scatter, gather = (total - own, total - before), (total - after, total - own)
    if collective == "all_reduce":
        return scatter[0] + gather[0], scatter[1] + gather[1]
    return scatter if collective == "reduce_scatter" else gather


def run(comm: Communicator, collective: str, sizes: tuple[int, ...], in_place: bool = False) -> None:
    total, own = sum(sizes), sizes[comm.rank]
    source = np.zeros(own if collective == "all_gather" else total)
    result = np.zeros(total if in_place or collective != "reduce_scatter" else own)
    argument: Any = IN_PLACE if in_place else source
    getattr(comm, collective)(argument, result, sizes=sizes).wait()


CUTS = {
    "even": lambda size: (4,) * size,
    "uneven": lambda size: even_cut(4 * size + 3, size),
    "with empty blocks": lambda size: tuple(5 * (rank % 2) for rank in range(size)),
    "all in one": lambda size: (0,) * (size - 1) + (9,),
}


@pytest.mark.few_sizes
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce"])
def test_the_bytes_counted_are_the_closed_form_to_the_byte(
    run_metered, world_size: int, collective: str, cut: str
) -> None:
    sizes = CUTS[cut](world_size)

    def body(comm: Communicator, ledger: Ledger) -> None:
        for in_place in (False, True):
            ledger.entries.clear()
            run(comm, collective, sizes, in_place)
            expected = closed_form(collective, sizes, comm.rank)
            assert counted(ledger) == (expected[0] * 8, expected[1] * 8)

    run_metered(body, check=False, chunk_bytes=16)


@pytest.mark.few_sizes
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=str)
def test_the_bytes_counted_are_those_of_the_proof(run_metered, world_size: int, algorithm: Any) -> None:
    if not algorithm.limit.allows(world_size):
        with pytest.raises(ValueError, match="needs a world size that is"):
            verify(algorithm, world_size)
        return
    collective = algorithm.collective
    sizes: Any = even_cut(3 * world_size + 1, world_size)
    if collective.by_pair:
        sizes = tuple(even_cut(3 * world_size + rank, world_size) for rank in range(world_size))
    elif collective.empty:
        sizes = (0,) * world_size
    size_of = algorithm.block_sizes(sizes)
    proof = verify(algorithm, world_size)

    def body(comm: Communicator, ledger: Ledger) -> None:
        held = collective.starts_with(comm.rank, world_size), collective.ends_with(comm.rank, world_size)
        whole = collective.block_sizes(sizes)
        source, result = (np.zeros(sum(whole[block] for block in blocks)) for blocks in held)
        argument: Any = IN_PLACE if collective.name == "broadcast" else source
        comm.prepare(collective.name, argument, result, sizes=sizes, algorithm=algorithm).run()
        sent, received = proof.sent[comm.rank], proof.received[comm.rank]
        assert counted(ledger) == (8 * sum(size_of[b] for b in sent), 8 * sum(size_of[b] for b in received))

    run_metered(body, check=False)


def test_every_message_is_paired_with_its_other_end(run_metered, world_size: int) -> None:
    def body(comm: Communicator, ledger: Ledger) -> list[Entry]:
        works = [
            comm.all_reduce(np.ones(20), np.empty(20)),
            comm.all_gather(np.ones(2), np.empty(2 * world_size)),
        ]
        for work in works if comm.rank % 2 else reversed(works):
            work.wait()
        return [*ledger.entries]

    ledgers = run_metered(body, chunk_bytes=8)
    messages = pair_messages(ledgers)
    assert sum(one.num_bytes for one in messages) == sum(
        size for ledger in ledgers for entry in ledger for _, size in entry.sends
    )
    assert all(one.start <= one.end for one in messages)
    assert [one.start for one in messages] == sorted(one.start for one in messages)
    assert {one.origin.call.label.kind for one in messages} == (
        {"training", "control"} if messages else set()
    )


@pytest.mark.ranks(min=2)
def test_drained_pieces_are_the_whole_and_what_is_in_flight_stays(run_metered) -> None:
    def body(comm: Communicator, ledger: Ledger) -> list[Entry]:
        drained, works = [], []
        for number in range(4):
            works.append(comm.all_reduce(np.ones(20), np.empty(20)))
            before = len(ledger.entries)
            drained += (piece := ledger.drain())
            assert all(entry.end is not None for entry in piece)
            assert all(entry.end is None for entry in ledger.entries)
            assert len(piece) + len(ledger.entries) == before
            if number % 2:
                works.pop(0).wait()
        for work in works:
            work.wait()
        drained += ledger.drain()
        assert ledger.entries == []
        return drained

    drained = run_metered(body, chunk_bytes=16)
    assert {entry.origin.call.number for ledger in drained for entry in ledger} == {0, 1, 2, 3}
    pair_messages(drained)


@pytest.mark.ranks(min=2)
def test_an_uncounted_message_is_found_at_either_end(run_metered) -> None:
    def body(comm: Communicator, ledger: Ledger) -> list[Entry]:
        comm.all_gather(np.ones(1), np.empty(comm.world_size)).wait()
        return [*ledger.entries]

    def ledgers() -> list[list[Entry]]:
        return run_metered(body, check=False)

    unsent, unreceived, shrunk = ledgers(), ledgers(), ledgers()
    sender, receiver = unsent[0][0].sends.pop()[0], unreceived[0][0].recvs.pop()[0]
    message = f"ring all_gather #0, step 0: rank {sender} counted 8 bytes received from rank 0, .* none sent"
    with pytest.raises(LedgerError, match=message):
        pair_messages(unsent)
    message = f"step 0: rank {receiver} counted 8 bytes sent to rank 0, which counted 0 received"
    with pytest.raises(LedgerError, match=message):
        pair_messages(unreceived)
    shrunk[1][0].sends[0] = (shrunk[1][0].sends[0][0], 7)
    with pytest.raises(
        LedgerError, match=r"rank 1 counted 7 bytes sent to rank \d, which counted 8 received"
    ):
        pair_messages(shrunk)


@pytest.mark.ranks(min=2)
def test_a_split_writes_into_the_same_ledger_in_ranks_of_the_world(run_metered) -> None:
    def body(comm: Communicator, ledger: Ledger) -> list[Entry]:
        part = comm.split(0, key=-comm.rank)
        assert part is not None
        part.all_gather(np.ones(1), np.empty(comm.world_size)).wait()
        assert all(
            peer == (comm.rank - 1) % comm.world_size for one in ledger.entries for peer, _ in one.sends
        )
        return [*ledger.entries]

    assert len(pair_messages(run_metered(body))) > 0


@pytest.mark.ranks(min=2)
def test_calls_of_two_communicators_with_one_number_are_not_mixed_up(run_metered) -> None:
    def body(comm: Communicator, ledger: Ledger) -> list[Entry]:
        part = comm.split(0)
        assert part is not None
        starts = [
            lambda: comm.all_gather(np.ones(1), np.empty(comm.world_size)),
            lambda: part.all_gather(np.ones(2), np.empty(2 * comm.world_size)),
        ]
        works = [start() for start in (starts if comm.rank else reversed(starts))]
        for work in works:
            while not work.poll():
                time.sleep(0)
        return [*ledger.entries]

    pair_messages(run_metered(body, check=False))
