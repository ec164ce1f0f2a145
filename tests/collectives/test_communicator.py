"""The face: arrays of any shape, Works in flight that do not mix."""

import numpy as np
import pytest

from collectives.communicator import IN_PLACE, Communicator
from collectives.transports.base import Transport
from collectives.transports.delaying import DelayingTransport
from collectives.transports.in_flight import Tags


def test_arrays_of_any_shape_are_seen_flat(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        matrix = np.arange(6).reshape(2, 3) + comm.rank
        found = np.empty((3, 2), matrix.dtype)
        comm.all_reduce(matrix, found).wait()
        assert found.reshape(-1).tolist() == [
            sum(number + rank for rank in range(comm.world_size)) for number in range(6)
        ]
        scalar = np.array(comm.rank)
        comm.all_reduce(IN_PLACE, scalar).wait()
        assert scalar == sum(range(comm.world_size))

    run_ranks(body)


def test_block_sizes_may_be_numpy_integers(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        sizes = np.arange(comm.world_size)
        output = np.empty(int(sizes.sum()), np.int64)
        comm.all_gather(np.full(comm.rank, comm.rank), output, sizes=sizes).wait()  # type: ignore[arg-type]
        assert output.tolist() == np.repeat(sizes, sizes).tolist()

    run_ranks(body)


@pytest.mark.parametrize("check", [True, False])
def test_works_of_equal_shape_in_flight_do_not_mix(run_ranks, check: bool) -> None:
    def body(comm: Communicator) -> None:
        chooses = np.random.default_rng(comm.rank)
        flights = []
        for number in range(8):
            numbers, found = np.full(9, 10**number) * (comm.rank + 1), np.zeros(9, np.int64)
            flights.append((number, comm.all_reduce(numbers, found), found))
        for place in chooses.permutation(len(flights)):
            number, work, found = flights[place]
            work.wait()
            assert found.tolist() == [10**number * sum(range(1, comm.world_size + 1))] * 9

    run_ranks(body, check=check, chunk_bytes=8, wrap=lambda inner: DelayingTransport(inner, 3))


def short_of_tags(inner: Transport) -> Transport:
    transport = DelayingTransport(inner, 11)
    transport.tags = Tags(30)
    return transport


def test_tags_start_again_without_meeting_a_work_in_flight(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        flights = []
        for number in range(20):
            numbers, found = np.full(comm.world_size, number), np.empty(comm.world_size, np.int64)
            flights.append((number, comm.all_reduce(numbers, found), found))
        order = np.random.default_rng(comm.rank).permutation(20)
        for number, work, found in (flights[place] for place in order):
            work.wait()
            assert found.tolist() == [number * comm.world_size] * comm.world_size

    run_ranks(body, wrap=short_of_tags, check=False)
