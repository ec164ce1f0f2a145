"""What is no schedule is refuted in words: never by a TypeError from deep inside, and never by hanging."""

from collections.abc import Callable
from itertools import repeat
from typing import Any

import pytest

from collectives.algorithms import ALGORITHMS, Algorithm, ring
from collectives.promises import ALL_GATHER, Collective
from collectives.schedule import Recv, ScheduleError, Send
from collectives.show import show
from collectives.verify import verify
from collectives.well_formed import most_steps


def spoiled(step: Any) -> Callable[[int, int], Any]:
    """A ring whose rank 0 takes a good step, then this one."""

    def schedule(rank: int, world_size: int) -> Any:
        steps = list(ring.all_gather(rank, world_size))
        return iter(steps if rank else [steps[0], step])

    return schedule


def stumbles(rank: int, world_size: int) -> Any:
    yield from list(ring.all_gather(rank, world_size))[: 2 if rank else 1]
    if rank == 0:
        raise KeyError("left")


def leaves(rank: int, world_size: int) -> Any:
    yield from list(ring.all_gather(rank, world_size))[: 2 if rank else 1]
    if rank == 0:
        raise SystemExit(5)


MALFORMED: dict[str, tuple[Any, str]] = {
    "a list": (lambda rank, size: [(Send(1, (0,)),)], "0: rank 0 has a list for a schedule: yield the steps"),
    "None": (lambda rank, size: None, "0: rank 0 has a NoneType for a schedule"),
    "no function": (7, "0: rank 0 raises TypeError: 'int' object is not callable"),
    "one argument": (lambda rank: iter(()), r"0: rank 0 raises TypeError: .*1 positional argument"),
    "a fault of its own": (stumbles, "1: rank 0 raises KeyError: 'left'"),
    "an exit": (leaves, "1: rank 0 raises SystemExit: 5"),
    "a bare send": (spoiled(Send(1, (0,))), "1: rank 0 yields a bare Send: a step is a tuple .* add a comma"),
    "a bare receive": (spoiled(Recv(1, (0,))), "1: rank 0 yields a bare Recv"),
    "no step": (spoiled(None), "1: rank 0 yields a NoneType for a step: a tuple of Send and Recv is needed"),
    "a list as a step": (spoiled([Send(1, (0,))]), "1: rank 0 yields a list for a step"),
    "a tuple as an operation": (
        spoiled(((1, (0,)),)),
        "1: rank 0 has a tuple in its step: a Send or a Recv is",
    ),
    "None as an operation": (spoiled((None,)), "1: rank 0 has a NoneType in its step"),
    "a block without its tuple": (spoiled((Send(1, 0),)), r"1: rank 0 names its blocks by 0: a tuple is"),  # type: ignore[arg-type]
    "blocks in a list": (spoiled((Send(1, [0]),)), r"1: rank 0 names its blocks by \[0\]: a tuple is needed"),  # type: ignore[arg-type]
    "a block that is a list": (
        spoiled((Send(1, ([0],)),)),
        r"1: rank 0 names blocks \(\[0\],\), which have no",
    ),
    "a block that nobody has": (spoiled((Send(1, (5,)),)), "1: rank 0 sends block 5, which it does not hold"),
    "a combine word": (
        spoiled((Recv(1, (1,), "besides"),)),  # type: ignore[arg-type]
        "1: rank 0 combines 'besides': it is 'before', 'after' or None",
    ),
    "itself": (spoiled((Send(0, (0,)),)), "1: rank 0 has peer 0: another rank below 3 is needed"),
    "a peer too far": (spoiled((Send(3, (0,)),)), "1: rank 0 has peer 3"),
    "a negative peer": (spoiled((Send(-1, (0,)),)), "1: rank 0 has peer -1"),
    "a peer and a half": (spoiled((Send(1.0, (0,)),)), "1: rank 0 has peer 1.0"),  # type: ignore[arg-type]
    "no peer": (spoiled((Send(None, (0,)),)), "1: rank 0 has peer None"),  # type: ignore[arg-type]
    "no end": (lambda rank, size: repeat(()), "36: rank 0 goes on after 36 steps, twice what the slowest"),
}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_no_schedule_is_refuted_in_one_line_with_rank_and_step(what: str) -> None:
    schedule, message = MALFORMED[what]
    with pytest.raises(ScheduleError, match=f"^odd all_gather on 3 ranks, step {message}.*$") as caught:
        verify(Algorithm("odd", ALL_GATHER, schedule), 3)
    assert "\n" not in str(caught.value)


@pytest.mark.timeout(10)
def test_a_schedule_that_moves_messages_for_ever_is_refuted() -> None:
    def endless(rank: int, world_size: int) -> Any:
        while True:
            yield Send(1 - rank, (rank,)), Recv(1 - rank, (1 - rank,))

    with pytest.raises(ScheduleError, match=r"step 16: rank 0 goes on after 16 steps"):
        verify(Algorithm("endless", ALL_GATHER, endless), 2)


@pytest.mark.timeout(10)
def test_a_schedule_that_never_ends_is_not_shown_either() -> None:
    with pytest.raises(ScheduleError, match="goes on after 36 steps"):
        show(Algorithm("endless", ALL_GATHER, lambda rank, world_size: repeat(())), 3)


@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_the_slowest_schedule_stays_within_half_the_limit(world_size: int) -> None:
    def one_by_one(rank: int, world_size: int) -> Any:
        """Rank 0 takes every block, and gives every rank what it lacks, block by block."""
        others = range(1, world_size)
        if rank:
            yield (Send(0, (rank,)),)
        else:
            yield from ((Recv(peer, (peer,)),) for peer in others)
        pairs = [(peer, block) for peer in others for block in range(world_size) if block != peer]
        if rank:
            yield from ((Recv(0, (block,)),) for peer, block in pairs if peer == rank)
        else:
            yield from ((Send(peer, (block,)),) for peer, block in pairs)

    proof = verify(Algorithm("one by one", ALL_GATHER, one_by_one), world_size)
    assert max(proof.steps) <= most_steps(world_size, world_size) // 2


def test_a_block_that_is_promised_and_that_no_rank_starts_with_is_refuted_by_name() -> None:
    too_much = Collective("too much", lambda rank, size: (rank,), lambda rank, size: (rank, "moon"), False)
    with pytest.raises(ScheduleError, match="block moon is promised, and no rank starts with it"):
        verify(Algorithm("idle", too_much, lambda rank, size: iter(())), 1)


@pytest.mark.parametrize(
    ("name", "promise", "message"),
    [
        (5, ALL_GATHER, "an algorithm named 5: give it a text for a name"),
        ("own", "all_gather", "algorithm 'own' is to keep 'all_gather': give a promise, one of promises.py"),
    ],
)
def test_an_algorithm_without_a_name_or_a_promise_is_not_made(name: Any, promise: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Algorithm(name, promise, ring.all_gather)


@pytest.mark.parametrize("world_size", [0, -1, 1.5, "2", None])
def test_what_is_no_world_size_is_refused(world_size: Any) -> None:
    with pytest.raises(ValueError, match=f"a world of {world_size!r} ranks: give a whole number, 1 or more"):
        verify(ALGORITHMS["ring", "all_gather"], world_size)
