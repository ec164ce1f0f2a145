"""What a Communicator remembers is bounded, and dies with it."""

import gc
import weakref

import numpy as np
import pytest

from collectives.algorithms import Algorithm, find_algorithm, ring
from collectives.bindings import Bindings
from collectives.communicator import Communicator
from collectives.promises import ALL_GATHER

RING = find_algorithm("ring", "all_gather")


def test_a_binding_is_made_once() -> None:
    bindings = Bindings()
    assert bindings.get(RING, 0, (1, 2), 8, False, 1) is bindings.get(RING, 0, (1, 2), 8, False, 1)
    assert bindings.get(RING, 0, (1, 2), 8, False, 1) is not bindings.get(RING, 0, (1, 2), 8, True, 1)


def test_the_binding_not_used_for_longest_goes_first() -> None:
    bindings = Bindings(max_rounds=5)  # of two rounds each
    first, second = (bindings.get(RING, 0, (1, size), 8, False, 1) for size in (1, 2))
    assert bindings.get(RING, 0, (1, 1), 8, False, 1) is first
    bindings.get(RING, 0, (1, 3), 8, False, 1)
    assert bindings.get(RING, 0, (1, 1), 8, False, 1) is first
    assert bindings.get(RING, 0, (1, 2), 8, False, 1) is not second
    assert bindings.num_rounds <= 5


def test_a_binding_larger_than_all_room_is_kept_alone() -> None:
    bindings = Bindings(max_rounds=5)
    bindings.get(RING, 0, (1, 1), 8, False, 1)
    large = bindings.get(RING, 0, (100, 100), 8, False, 50)
    assert bindings.get(RING, 0, (100, 100), 8, False, 50) is large
    assert bindings.num_rounds == 51


@pytest.mark.few_sizes
def test_an_algorithm_of_the_users_own_dies_with_the_communicator(run_ranks) -> None:
    def body(comm: Communicator) -> "weakref.ref[Algorithm]":
        mine = Algorithm("mine", ALL_GATHER, ring.all_gather)
        Communicator(comm.transport).all_gather(np.ones(1), np.empty(comm.world_size), algorithm=mine).wait()
        comm.exchange(None)
        return weakref.ref(mine)

    # Within the body: what ranks return may have to travel.
    def alive(comm: Communicator) -> bool:
        left = body(comm)
        gc.collect()
        return left() is not None

    assert not any(run_ranks(alive))
