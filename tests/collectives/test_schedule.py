import pickle

from collectives.algorithms.ring import all_gather
from collectives.schedule import Recv, ScheduleError, Send, backwards, rename, spread, together


def test_a_ring_all_gather_reads_as_the_textbook_says() -> None:
    assert list(all_gather(1, 4)) == [
        (Send(2, (1,)), Recv(0, (0,))),
        (Send(2, (0,)), Recv(0, (3,))),
        (Send(2, (3,)), Recv(0, (2,))),
    ]


def test_one_rank_has_nothing_to_do() -> None:
    assert list(all_gather(0, 1)) == []


def test_together_posts_step_by_step_and_lets_the_longer_one_finish() -> None:
    short = iter([(Send(1, (0,)),)])
    long = iter([(Send(2, (1,)),), (Recv(2, (2,)),)])
    assert list(together(short, long)) == [(Send(1, (0,)), Send(2, (1,))), (Recv(2, (2,)),)]


def test_together_of_nothing_is_nothing() -> None:
    assert list(together()) == []


def test_rename_changes_names_and_nothing_else() -> None:
    schedule = iter([(Send(1, (0, 1)), Recv(2, (3,), "after"))])
    renamed = rename(schedule, block=lambda name: (name, "half"), peer=lambda rank: 10 - rank)
    assert list(renamed) == [(Send(9, ((0, "half"), (1, "half"))), Recv(8, ((3, "half"),), "after"))]


def test_rename_can_run_a_ring_backwards() -> None:
    size = 5
    for rank in range(size):
        mirrored = rename(all_gather(-rank % size, size), block=lambda b: -b % size, peer=lambda r: -r % size)
        for step, (send, recv) in enumerate(mirrored):
            assert send == Send((rank - 1) % size, ((rank + step) % size,))
            assert recv == Recv((rank + 1) % size, ((rank + step + 1) % size,))


def test_spread_lets_a_block_stand_for_several_in_one_message() -> None:
    schedule = iter([(Send(1, (0, 2)), Recv(2, (1,), "after"))])
    assert list(spread(schedule, lambda block: (block, (block, "more")))) == [
        (Send(1, (0, (0, "more"), 2, (2, "more"))), Recv(2, (1, (1, "more")), "after"))
    ]


def test_backwards_who_gave_last_takes_first() -> None:
    schedule = iter([(Send(1, (0,)),), (Recv(2, (3, 4)), Send(3, (5,)))])
    assert list(backwards(schedule, "before")) == [
        (Send(2, (3, 4)), Recv(3, (5,), "before")),
        (Recv(1, (0,), "before"),),
    ]
    assert list(backwards(iter([(Recv(1, (0,), "after"),), (Send(2, (0,)),)]))) == [
        (Recv(2, (0,)),),
        (Send(1, (0,)),),
    ]


def test_an_error_keeps_its_places_on_its_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(ScheduleError("rank 1 is wrong", (1, 0), (2, 3))))
    assert (str(error), error.places) == ("rank 1 is wrong", ((1, 0), (2, 3)))


def test_schedules_are_lazy() -> None:
    first = next(all_gather(0, 10**9))
    assert first == (Send(1, (0,)), Recv(10**9 - 1, (10**9 - 1,)))
