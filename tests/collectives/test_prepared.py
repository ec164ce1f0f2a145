"""A prepared collective: settled once, started many times."""

import numpy as np
import pytest

from collectives.communicator import IN_PLACE, Communicator
from collectives.ledger import Ledger
from collectives.transports.metered import MeteredTransport


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("chunk_bytes", [None, 16])
def test_every_start_sees_the_arrays_as_they_are(run_ranks, check: bool, chunk_bytes: int | None) -> None:
    def body(comm: Communicator) -> None:
        size = 2 * comm.world_size + 1
        given, summed = np.zeros(size, np.int64), np.zeros(size, np.int64)
        prepared = comm.prepare("all_reduce", given, summed)
        for value in range(4):
            given[:] = np.arange(size) + value + comm.rank
            prepared.run() if value % 2 else prepared.start().wait()
            expected = (np.arange(size) + value) * comm.world_size + sum(range(comm.world_size))
            assert summed.tolist() == expected.tolist()

    run_ranks(body, check=check, chunk_bytes=chunk_bytes)


def test_other_calls_do_not_meet_its_messages(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        kept, other = np.zeros(comm.world_size, np.int64), np.zeros(comm.world_size, np.int64)
        prepared = comm.prepare("all_gather", IN_PLACE, kept, sizes=(1,) * comm.world_size)
        for value in range(3):
            kept[comm.rank], other[comm.rank] = comm.rank + value, -comm.rank
            first = comm.all_gather(IN_PLACE, other, sizes=(1,) * comm.world_size)
            works = [first, prepared.start()]
            for work in works if comm.rank % 2 else works[::-1]:
                work.wait()
            prepared.run()
            assert kept.tolist() == [rank + value for rank in range(comm.world_size)]
            assert other.tolist() == [-rank for rank in range(comm.world_size)]

    run_ranks(body, check=False)


def test_the_same_bytes_are_counted_as_for_the_plain_call(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        ledgers = Ledger(), Ledger()
        plain, kept = (
            Communicator(MeteredTransport(comm.transport, ledger), check=comm.check) for ledger in ledgers
        )
        full, block = np.ones(11), np.zeros(11 // comm.world_size + (comm.rank < 11 % comm.world_size))
        plain.reduce_scatter(full, block).wait()
        kept.prepare("reduce_scatter", full, block).run()
        assert ledgers[0].sent() == ledgers[1].sent()

    run_ranks(body)
