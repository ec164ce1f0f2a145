"""What several tests of the collectives need: a ledger for each rank, and an algorithm in rank order."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import pytest

from collectives.algorithms import Algorithm
from collectives.communicator import Communicator
from collectives.ledger import Ledger
from collectives.promises import ALL_REDUCE
from collectives.schedule import Recv, Schedule, Send
from collectives.transports.metered import MeteredTransport

T = TypeVar("T")


class RunMetered(Protocol):
    """``body(communicator, its ledger)`` on every rank at once, as ``run_ranks`` does."""

    def __call__(self, body: Callable[[Communicator, Ledger], T], **settings: Any) -> list[T]: ...


@pytest.fixture
def run_metered(run_ranks: Callable[..., list[Any]]) -> RunMetered:
    def run(body: Callable[[Communicator, Ledger], T], **settings: Any) -> list[T]:
        def on_rank(comm: Communicator) -> T:
            assert isinstance(comm.transport, MeteredTransport)
            return body(comm, comm.transport.ledger)

        return run_ranks(on_rank, wrap=lambda inner: MeteredTransport(inner, Ledger()), **settings)

    return run


@pytest.fixture(scope="session")
def chain() -> Algorithm:
    """Operands in rank order: a partial result walks up the ranks, and the whole one walks down."""

    def schedule(rank: int, world_size: int) -> Schedule:
        blocks = tuple(range(world_size))
        if rank > 0:
            yield (Recv(rank - 1, blocks, "before"),)
        if rank < world_size - 1:
            yield (Send(rank + 1, blocks),)
            yield (Recv(rank + 1, blocks),)
        if rank > 0:
            yield (Send(rank - 1, blocks),)

    return Algorithm("chain", ALL_REDUCE, schedule)
