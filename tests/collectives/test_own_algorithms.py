"""An algorithm of the user's own: proved before it first runs, once, and refuted on all ranks alike."""

from typing import Any

import numpy as np
import pytest

from collectives import bindings
from collectives.algorithms import Algorithm, ring
from collectives.call_check import CallMismatchError
from collectives.communicator import Communicator
from collectives.ledger import Ledger
from collectives.promises import ALL_GATHER
from collectives.schedule import Schedule, ScheduleError

OWN = Algorithm("own", ALL_GATHER, ring.all_gather)


def forgetful(rank: int, world_size: int) -> Schedule:
    """A ring that stops a step short: it hangs nowhere, and leaves a block as it was."""
    yield from list(ring.all_gather(rank, world_size))[:-1]


def leaving(rank: int, world_size: int) -> Schedule:
    raise SystemExit(0)


FORGETFUL = Algorithm("forgetful", ALL_GATHER, forgetful)
LEAVING = Algorithm("leaving", ALL_GATHER, leaving)


def gather(comm: Communicator, algorithm: Any) -> None:
    comm.all_gather(np.ones(1), np.empty(comm.world_size), algorithm=algorithm).wait()


@pytest.mark.ranks(min=2)
@pytest.mark.parametrize("check", [True, False])
def test_an_algorithm_that_breaks_its_promise_is_refuted_on_every_rank_before_a_number_moves(
    run_metered, check: bool
) -> None:
    def body(comm: Communicator, ledger: Ledger) -> str:
        for start in (comm.all_gather, lambda *arrays, **how: comm.prepare("all_gather", *arrays, **how)):
            with pytest.raises(ScheduleError, match="rank 0 ends with block 1 without the contr") as caught:
                start(np.ones(1), np.empty(comm.world_size), algorithm=FORGETFUL)
        assert ledger.sent("training") == 0
        gather(comm, OWN)
        return str(caught.value)

    assert len(set(run_metered(body, check=check))) == 1


@pytest.mark.ranks(min=2)
@pytest.mark.parametrize("wrong", [FORGETFUL, LEAVING], ids=str)
def test_ranks_whose_algorithm_is_sound_hear_that_anothers_is_refuted(run_ranks, wrong: Algorithm) -> None:
    def body(comm: Communicator) -> None:
        told = f"rank 1 calls all_gather, but cannot: {wrong} on"
        error, message = (ScheduleError, wrong.name) if comm.rank == 1 else (CallMismatchError, told)
        with pytest.raises(error, match=message):
            gather(comm, wrong if comm.rank == 1 else OWN)

    run_ranks(body)


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [2])
def test_the_proof_is_made_once_for_the_callers_algorithm_and_never_for_one_of_the_table(
    run_ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    proved = []
    monkeypatch.setattr(bindings, "verify", lambda *what: proved.append(what))

    def body(comm: Communicator) -> None:
        for count in (1, 2, 1):
            for algorithm in ("ring", OWN, OWN):
                block, whole = np.ones(count), np.empty(count * comm.world_size)
                comm.all_gather(block, whole, algorithm=algorithm).wait()

    run_ranks(body)
    assert proved == [(OWN, 2)] * 2, "once on each rank"
