"""Where all ranks meet: parts of a communicator, and values that every rank tells the others."""

import numpy as np

from collectives.communicator import Communicator
from collectives.ledger import Ledger
from collectives.transports.delaying import DelayingTransport


def test_split_gives_the_ranks_of_a_color_a_communicator_of_their_own(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part = comm.split(comm.rank % 2, key=-comm.rank)
        assert part is not None
        members = [rank for rank in range(comm.world_size) if rank % 2 == comm.rank % 2][::-1]
        assert part.transport.members == tuple(members)
        assert part.world_size == len(members)
        assert members[part.rank] == comm.rank
        assert (part.time_limit, part.check, part.chunk_bytes) == (20, True, 16)
        found = np.empty(part.world_size, np.int64)
        work = part.all_gather(np.array([comm.rank]), found)
        everybody = np.empty(comm.world_size, np.int64)
        comm.all_gather(np.array([comm.rank]), everybody).wait()  # both in flight, same peers, same tags
        work.wait()
        assert found.tolist() == members
        assert everybody.tolist() == list(range(comm.world_size))

    run_ranks(body, chunk_bytes=16, wrap=lambda inner: DelayingTransport(inner, 7))


def test_a_split_of_a_split_keeps_the_ranks_of_the_world(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        upper = comm.split(0 if comm.rank >= comm.world_size // 2 else 1)
        assert upper is not None
        single = upper.split(upper.rank)
        assert single is not None
        assert single.transport.members == (comm.rank,)
        found = np.empty(2)
        single.all_reduce(np.ones(2), found).wait()
        assert found.tolist() == [1, 1]

    run_ranks(body)


def test_a_rank_without_a_color_is_in_no_part(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part = comm.split(None if comm.rank == 0 else 5)
        assert (part is None) == (comm.rank == 0)
        if part is not None:
            found = np.empty(1, np.int64)
            part.all_reduce(np.array([1]), found).wait()
            assert found == comm.world_size - 1

    run_ranks(body)


def test_a_split_puts_nothing_past_the_ledger_and_an_exchange_says_that_it_does(run_metered) -> None:
    def body(comm: Communicator, ledger: Ledger) -> None:
        comm.split(0)
        assert (ledger.exchanges, ledger.entries) == (0, [])
        comm.exchange("a report")
        assert ledger.exchanges == 1

    run_metered(body)


def test_exchange_gives_every_value_to_every_rank(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        for number in range(3):
            assert comm.exchange((number, comm.rank, "x" * comm.rank)) == [
                (number, rank, "x" * rank) for rank in range(comm.world_size)
            ]

    run_ranks(body)
