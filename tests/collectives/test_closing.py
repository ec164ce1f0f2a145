"""A communicator that is closed: each use of it is the same ValueError, on every transport and every rank."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from collectives.communicator import Communicator
from collectives.ledger import Call, Label, Ledger, Origin
from collectives.transports.base import Transport
from collectives.transports.delaying import DelayingTransport
from collectives.transports.metered import MeteredTransport
from collectives.transports.mute import MuteTransport

pytestmark = pytest.mark.on_processes

ORIGIN = Origin(Call(0, "test", "none", Label()), 0, 0)
LINE = "this communicator is closed: close it after its last use, or make another"

USES: dict[str, Callable[[Communicator], Any]] = {
    "close": lambda comm: comm.close(),
    "a call": lambda comm: comm.all_reduce(np.ones(3), np.empty(3)),
    "prepare": lambda comm: comm.prepare("all_reduce", np.ones(3), np.empty(3)),
    "exchange": lambda comm: comm.exchange(None),
    "split": lambda comm: comm.split(0),
}
BELOW: dict[str, Callable[[Transport], Any]] = {
    "close": lambda transport: transport.close(),
    "post": lambda transport: transport.post([(0, np.empty(1, np.uint8))], [], 0, ORIGIN),
    "exchange": lambda transport: transport.exchange(None),
    "split": lambda transport: transport.split(0, 0),
    "agree": lambda transport: transport.agree(None),
}


def wrap_all(inner: Transport) -> Transport:
    return MeteredTransport(DelayingTransport(inner), Ledger())


def closed_part(comm: Communicator) -> Communicator:
    part = comm.split(0)
    assert part is not None
    part.all_reduce(np.ones(3), np.empty(3)).wait()
    part.close()
    return part


@pytest.mark.few_sizes
@pytest.mark.parametrize(
    ("wrap", "check"),
    [(lambda inner: inner, True), (wrap_all, True), (MuteTransport, False)],
    ids=["plain", "wrapped", "mute"],
)
def test_every_use_of_a_closed_communicator_is_one_error(run_ranks, wrap: Any, check: bool) -> None:
    def body(comm: Communicator) -> None:
        part = closed_part(comm)
        for use in USES.values():
            with pytest.raises(ValueError, match=LINE):
                use(part)
        comm.exchange("its whole goes on")

    run_ranks(body, wrap=wrap, check=check, time_limit=5)


@pytest.mark.few_sizes
@pytest.mark.parametrize("use", BELOW)
def test_every_use_of_a_closed_transport_is_the_same_error(run_ranks, use: str) -> None:
    def body(comm: Communicator) -> None:
        transport = closed_part(comm).transport
        with pytest.raises(ValueError, match=LINE):
            BELOW[use](transport)

    run_ranks(body, time_limit=5)


@pytest.mark.few_sizes
@pytest.mark.parametrize("start", ["run", "start"])
def test_what_was_prepared_is_not_started_on_a_closed_communicator(run_ranks, start: str) -> None:
    def body(comm: Communicator) -> None:
        part = comm.split(0)
        assert part is not None
        prepared = part.prepare("all_reduce", np.ones(3), np.empty(3))
        prepared.run()
        part.close()
        with pytest.raises(ValueError, match=LINE):
            getattr(prepared, start)()

    run_ranks(body, check=False, time_limit=5)


def test_other_communicators_on_a_closed_transport_are_closed_too(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        part = comm.split(0)
        assert part is not None
        other = Communicator(part.transport)
        part.close()
        with pytest.raises(ValueError, match=LINE):
            other.exchange(None)

    run_ranks(body, time_limit=5)
