"""A muted transport: what is silenced is over at once, and what is not is as real as without it."""

import numpy as np

from collectives.communicator import Communicator
from collectives.ledger import Label
from collectives.transports.base import Transport
from collectives.transports.mute import MuteTransport
from collectives.transports.threads import ThreadWorld, run_threads


def test_a_rank_whose_every_message_is_silenced_needs_no_others() -> None:
    comm = Communicator(MuteTransport(ThreadWorld(4).transport(1)), check=False)
    gathered = np.full(4, 9)
    comm.all_gather(np.array([5]), gathered).wait()
    assert gathered.tolist() == [0, 5, 0, 0]


def test_only_the_kinds_that_are_named_are_silenced_in_splits_too() -> None:
    def body(transport: Transport) -> list[list[int]]:
        comm = Communicator(MuteTransport(transport, kinds=("training",)))
        half = comm.split(comm.rank % 2, comm.rank)
        assert half is not None
        found = []
        for one in (comm, half):
            for kind in ("training", "control"):
                gathered = np.full(one.world_size, 9)
                with one.labelled(Label(kind)):
                    one.all_gather(np.array([comm.rank]), gathered).wait()
                found.append(gathered.tolist())
        return found

    assert run_threads(4, body)[1] == [[0, 1, 0, 0], [0, 1, 2, 3], [1, 0], [1, 3]]
