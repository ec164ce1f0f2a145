"""What is proved of every algorithm, and what the proof refutes: a checker is worth what it catches."""

import re
from collections.abc import Callable

import pytest

from collectives.algorithms import ALGORITHMS, Algorithm, find_algorithm, ring, tree
from collectives.promises import ALL_GATHER, ALL_REDUCE, REDUCE, REDUCE_SCATTER, SCAN, Collective
from collectives.schedule import Recv, Schedule, ScheduleError, Send, Step, rename, together
from collectives.verify import roots, verify

EVERY = pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=str)


@EVERY
def test_every_algorithm_is_proved_on_1_to_16_ranks(algorithm: Algorithm) -> None:
    for world_size in filter(algorithm.limit.allows, range(1, 17)):
        verify(algorithm, world_size)


@EVERY
def test_every_algorithm_is_proved_on_64_ranks(algorithm: Algorithm) -> None:
    verify(algorithm, 64)


@pytest.mark.parametrize(
    ("collective", "steps"), [("all_gather", 63), ("reduce_scatter", 63), ("all_reduce", 126)]
)
def test_a_ring_takes_a_step_to_each_other_rank(collective: str, steps: int) -> None:
    assert set(verify(ALGORITHMS["ring", collective], 64).steps) == {steps}


def test_a_proof_counts_what_each_rank_sends_and_receives() -> None:
    proof = verify(ALGORITHMS["ring", "all_gather"], 3)
    assert proof.steps == (2, 2, 2)
    assert proof.sent == ((0, 2), (1, 0), (2, 1))
    assert proof.received == ((2, 1), (0, 2), (1, 0))


def _two_way_reduce_scatter(rank: int, world_size: int) -> Schedule:
    """The first half of every block goes round to the right, the second to the left."""

    def half(which: int) -> Callable[[object], tuple[object, int]]:
        return lambda block: (block, which)

    def mirror(name: int) -> int:
        return -name % world_size

    backwards = rename(ring.reduce_scatter(mirror(rank), world_size), block=mirror, peer=mirror)  # type: ignore[arg-type]
    return together(
        rename(ring.reduce_scatter(rank, world_size), block=half(0)), rename(backwards, block=half(1))
    )


HALVES = Collective(
    "reduce_scatter_of_halves",
    starts_with=lambda rank, world_size: tuple((b, h) for b in range(world_size) for h in (0, 1)),
    ends_with=lambda rank, world_size: ((rank, 0), (rank, 1)),
    reduces=True,
)


@pytest.mark.parametrize("world_size", range(1, 9))
def test_two_rings_together_on_half_blocks_are_proved(world_size: int) -> None:
    algorithm = Algorithm("two-way ring", HALVES, _two_way_reduce_scatter, commutative_only=True)
    assert set(verify(algorithm, world_size).steps) == {world_size - 1}


@pytest.mark.parametrize("world_size", range(1, 9))
def test_operands_in_rank_order_are_proved_for_operators_that_do_not_commute(
    chain: Algorithm, world_size: int
) -> None:
    verify(chain, world_size)


def test_a_swap_in_one_step_is_proved_because_sends_read_what_was_there_before() -> None:
    swapped = Collective(
        "swap", lambda rank, size: (rank, rank + 2), lambda rank, size: (rank + 2, 1 - rank), False
    )

    def swap(rank: int, world_size: int) -> Schedule:
        yield Send(1 - rank, (rank,)), Recv(1 - rank, (1 - rank,))

    verify(Algorithm("swap", swapped, swap), 2)


# Planted faults. Each changes one step of a good schedule on one rank, or on all.


def _spoil(
    good: Callable[[int, int], Schedule], change: Callable[[int, int, int, Step], Step | None]
) -> Callable[[int, int], Schedule]:
    """``change(rank, world_size, number, step)`` in place of each step; None leaves the step out."""

    def schedule(rank: int, world_size: int) -> Schedule:
        for number, step in enumerate(good(rank, world_size)):
            changed = change(rank, world_size, number, step)
            if changed is not None:
                yield changed

    return schedule


def _wrong_block(rank: int, size: int, number: int, step: Step) -> Step:
    send, recv = step
    return (send._replace(blocks=(3,)), recv) if (rank, number) == (0, 2) else step


def _wrong_direction(rank: int, size: int, number: int, step: Step) -> Step:
    send, recv = step
    return (send._replace(peer=(rank - 1) % size), recv) if rank == 1 else step


def _step_left_out(rank: int, size: int, number: int, step: Step) -> Step | None:
    return None if (rank, number) == (2, 1) else step


def _last_step_left_out_by_all(rank: int, size: int, number: int, step: Step) -> Step | None:
    return None if number == size - 2 else step


def _replaces(rank: int, size: int, number: int, step: Step) -> Step:
    send, recv = step
    return (send, recv._replace(combine=None)) if (rank, number) == (3, 1) else step


def _receives_twice(rank: int, size: int, number: int, step: Step) -> Step:
    send, recv = step
    return (send, send, recv, recv) if number == 0 else step


def _sends_to_itself(rank: int, size: int, number: int, step: Step) -> Step:
    send, recv = step
    return (send._replace(peer=rank), recv) if (rank, number) == (2, 0) else step


def _peer_out_of_range(rank: int, size: int, number: int, step: Step) -> Step:
    send, recv = step
    return (send._replace(peer=rank + 1), recv) if rank == size - 1 else step


def _negative_peer(rank: int, size: int, number: int, step: Step) -> Step:
    send, recv = step
    return (send, recv._replace(peer=rank - 1)) if rank == 0 else step


def _sends_too_early(rank: int, size: int, number: int, step: Step) -> Step:
    send, recv = step
    return send._replace(blocks=((rank + 1) % size,)), recv


def _combines_in_all_gather(rank: int, size: int, number: int, step: Step) -> Step:
    send, recv = step
    return (send, recv._replace(combine="before")) if (rank, number) == (1, 0) else step


def _last_block_is_another_one(rank: int, size: int, number: int, step: Step) -> Step:
    # Both ends agree on a block that rank 0 has already, so block 1 never reaches it.
    send, recv = step
    if (rank, number) == (3, 2):
        return send._replace(blocks=(3,)), recv
    return (send, recv._replace(blocks=(3,))) if (rank, number) == (0, 2) else step


def _adds_after_the_fact(rank: int, size: int, number: int, step: Step) -> Step:
    # Reduce-scatter's last step combines what all_reduce would replace.
    send, recv = step
    return (send, recv._replace(combine="before")) if number >= size - 1 else step


FAULTS = [
    ("all_gather", _wrong_block, "step 2: rank 1 waits for block 2 from rank 0, which sends block 3"),
    ("all_gather", _wrong_direction, r"rank 2 waits in step 0 for rank 1 to send block 1"),
    ("all_gather", _step_left_out, "step 1: rank 2 sends block 0, which it does not hold"),
    ("all_gather", _last_step_left_out_by_all, "rank 0 ends with block 1 without the contribution of rank 1"),
    ("reduce_scatter", _replaces, r"rank 0 ends with block 0 without the contribution of rank 3"),
    ("reduce_scatter", _receives_twice, "step 0: rank 1 adds the contribution of rank 0 to block 3 twice"),
    ("all_gather", _sends_to_itself, "step 0: rank 2 has peer 2: another rank below 4 is needed"),
    ("all_gather", _peer_out_of_range, "step 0: rank 3 has peer 4: another rank below 4 is needed"),
    ("all_gather", _negative_peer, "step 0: rank 0 has peer -1: another rank below 4 is needed"),
    ("all_gather", _sends_too_early, "step 0: rank 0 sends block 1, which it does not hold"),
    ("all_gather", _combines_in_all_gather, "rank 1 combines into block 0, which it does not hold"),
    ("all_gather", _last_block_is_another_one, "rank 0 ends with block 1 without the contribution"),
    ("all_reduce", _adds_after_the_fact, r"step 3: rank \d adds the contribution of rank \d.* twice"),
]


@pytest.mark.parametrize(
    ("collective", "change", "message"), FAULTS, ids=[change.__name__[1:] for _, change, _ in FAULTS]
)
def test_a_planted_fault_is_refuted_with_rank_step_and_block(
    collective: str, change: Callable[[int, int, int, Step], Step | None], message: str
) -> None:
    good = ALGORITHMS["ring", collective]
    bad = Algorithm("broken", good.collective, _spoil(good.schedule, change), good.commutative_only)
    with pytest.raises(ScheduleError, match=message) as caught:
        verify(bad, 4)
    assert str(caught.value).startswith(f"broken {collective} on 4 ranks")


def test_two_ranks_that_both_receive_first_are_refuted() -> None:
    def wait_first(rank: int, world_size: int) -> Schedule:
        yield (Recv(1 - rank, (1 - rank,)),)
        yield (Send(1 - rank, (rank,)),)

    message = "rank 1 waits in step 0 for rank 0 to send block 0; rank 0 waits in step 0 for rank 1"
    with pytest.raises(ScheduleError, match=f"({message}.*|.*): nobody can go on"):
        verify(Algorithm("polite", ALL_GATHER, wait_first), 2)


def test_two_ranks_that_both_send_first_are_refuted_though_buffering_would_let_them_pass() -> None:
    def send_first(rank: int, world_size: int) -> Schedule:
        yield (Send(1 - rank, (rank,)),)
        yield (Recv(1 - rank, (1 - rank,)),)

    with pytest.raises(ScheduleError, match="rank 0 waits in step 0 for rank 1 to receive block 0"):
        verify(Algorithm("eager", ALL_GATHER, send_first), 2)


def test_a_deadlock_of_many_ranks_names_four_and_counts_the_others() -> None:
    def wait_first(rank: int, world_size: int) -> Schedule:
        yield (Recv((rank - 1) % world_size, ((rank - 1) % world_size,)),)
        yield (Send((rank + 1) % world_size, (rank,)),)

    with pytest.raises(ScheduleError, match="and 4 more: nobody can go on"):
        verify(Algorithm("polite", ALL_GATHER, wait_first), 8)


def test_operands_out_of_rank_order_are_refuted_unless_declared() -> None:
    unordered = Algorithm("ring", REDUCE_SCATTER, ring.reduce_scatter, commutative_only=False)
    with pytest.raises(ScheduleError, match="rank 0 ends with block 0 with its operands out of rank order"):
        verify(unordered, 4)


def test_the_wrong_side_of_the_operator_is_refuted(chain: Algorithm) -> None:
    def flipped(rank: int, world_size: int) -> Schedule:
        for step in chain.schedule(rank, world_size):
            yield tuple(
                op._replace(combine="after") if isinstance(op, Recv) and op.combine else op for op in step
            )

    with pytest.raises(ScheduleError, match="operands out of rank order"):
        verify(Algorithm("chain", ALL_REDUCE, flipped), 3)


def test_the_same_contribution_by_two_ways_is_refuted() -> None:
    def again(rank: int, world_size: int) -> Schedule:
        yield from ring.all_gather(rank, world_size)
        yield Send(1 - rank, (0,)), Recv(1 - rank, (0,), "after")

    with pytest.raises(ScheduleError, match=r"step 1: rank [01] adds the contribution of rank 0 to block 0"):
        verify(Algorithm("again", ALL_GATHER, again), 2)


def test_a_message_that_nobody_receives_is_refuted() -> None:
    def chatty(rank: int, world_size: int) -> Schedule:
        yield from ring.all_gather(rank, world_size)
        if rank == 1:
            yield (Send(0, (1,)),)

    with pytest.raises(
        ScheduleError, match="rank 1 waits in step 2 for rank 0, which has ended, to receive block 1"
    ):
        verify(Algorithm("chatty", ALL_GATHER, chatty), 3)


def test_the_error_is_one_line() -> None:
    bad = Algorithm("broken", ALL_GATHER, _spoil(ring.all_gather, _wrong_direction))
    with pytest.raises(ScheduleError) as caught:
        verify(bad, 16)
    assert re.fullmatch(r"[^\n]{1,400}", str(caught.value))


def test_a_prefix_that_holds_what_comes_after_it_is_refuted() -> None:
    everything = find_algorithm("recursive_doubling", "all_reduce").schedule
    with pytest.raises(
        ScheduleError, match=r"rank 0 ends with block 0 with the .* of rank 1-3, which is too many"
    ):
        verify(Algorithm("too much", SCAN, everything), 4)


@pytest.mark.parametrize("root", range(5))
def test_a_root_is_proved_for_itself(root: int) -> None:
    """A tree to rank 0 is right for that root alone."""

    def always_to_first(rank: int, world_size: int, root: int) -> Schedule:
        return tree.reduce(rank, world_size, 0)

    broken = Algorithm("stubborn", REDUCE, always_to_first, commutative_only=True).at(root)
    assert roots(broken, 5) == [0, 1, 2, 3, 4]
    if root == 0:
        verify(broken, 5)
    else:
        with pytest.raises(ScheduleError, match=rf"stubborn reduce \(root {root}\) on 5 ranks: "):
            verify(broken, 5)
