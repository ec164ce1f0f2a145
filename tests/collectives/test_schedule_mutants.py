"""Faults planted in the schedules of every family: each is refuted, in words and at the right place."""

from collections.abc import Callable

import pytest

from collectives.algorithms import ALGORITHMS, Algorithm
from collectives.schedule import Place, Recv, Schedule, ScheduleError, Send, Step
from collectives.show import show_fault
from collectives.verify import verify

Change = Callable[[Step, int], Step | None]
"""A step and the world size, to the step in its place; None leaves it out."""


def planted(algorithm: Algorithm, at: Place | None, change: Change) -> Algorithm:
    """The algorithm with one step changed, of one rank; or, at no place, all steps of all ranks."""

    def schedule(rank: int, world_size: int, *root: int) -> Schedule:
        for number, step in enumerate(algorithm.schedule(rank, world_size, *root)):
            changed = change(step, world_size) if at in (None, (rank, number)) else step
            if changed is not None:
                yield changed

    return Algorithm(
        "broken",
        algorithm.collective,
        schedule,
        algorithm.commutative_only,
        algorithm.cost,
        parts=algorithm.parts,
    )


def on(kind: type[Send] | type[Recv], change: Callable[..., Send | Recv]) -> Change:
    """The change of all operations of one kind in the step."""
    return lambda step, size: tuple(change(op, size) if isinstance(op, kind) else op for op in step)


def left_out(step: Step, size: int) -> None:
    return None


def idle(step: Step, size: int) -> Step:
    return ()


def twice(step: Step, size: int) -> Step:
    return step + step


def sends_only(step: Step, size: int) -> Step:
    return tuple(op for op in step if isinstance(op, Send))


def receives_only(step: Step, size: int) -> Step:
    return tuple(op for op in step if isinstance(op, Recv))


one_block_less = on(Send, lambda op, size: op._replace(blocks=op.blocks[1:]))
other_order = on(Send, lambda op, size: op._replace(blocks=op.blocks[::-1]))
next_block = on(Send, lambda op, size: op._replace(blocks=tuple((b + 1) % size for b in op.blocks)))
next_peer = on(Send, lambda op, size: op._replace(peer=(op.peer + 1) % size))
beyond = on(Recv, lambda op, size: op._replace(peer=op.peer + size))
replaces = on(Recv, lambda op, size: op._replace(combine=None))
combines = on(Recv, lambda op, size: op._replace(combine="before"))
other_side = on(Recv, lambda op, size: op._replace(combine="before" if op.combine == "after" else "after"))
other_half = on(Send, lambda op, size: op._replace(blocks=tuple((b, 1 - half) for b, half in op.blocks)))
other_way = on(Send, lambda op, size: op._replace(blocks=tuple(block[::-1] for block in op.blocks)))

FAULTS: list[tuple[str, str, int, Place, Change, str]] = [
    (
        "ring",
        "all_gather",
        4,
        (1, 1),
        next_block,
        "rank 2 waits for block 0 from rank 1, which sends block 1",
    ),
    (
        "ring",
        "reduce_scatter",
        4,
        (2, 1),
        replaces,
        "without .* of rank 2: rank 2 loses contributions in step 1",
    ),
    (
        "ring",
        "all_reduce",
        4,
        (3, 4),
        combines,
        "step 4: rank 3 adds the contribution of rank 2, 3 to block 1 tw",
    ),
    (
        "ring",
        "all_reduce",
        5,
        (2, 3),
        left_out,
        "step 3: rank 2 waits for block 1 from rank 1, which sends bl",
    ),
    (
        "bidirectional_ring",
        "all_gather",
        4,
        (0, 1),
        other_half,
        r"step 1: rank 0 sends block \(3, 1\), which it do",
    ),
    (
        "bidirectional_ring",
        "reduce_scatter",
        4,
        (1, 2),
        sends_only,
        r"rank 0 waits in step 2 for rank 1, which has ended, to receive block \(1, 0\)",
    ),
    (
        "neighbor_exchange",
        "all_gather",
        6,
        (3, 1),
        next_block,
        "step 1: rank 3 sends block 4, which it does not",
    ),
    (
        "neighbor_exchange",
        "all_gather",
        6,
        (0, 2),
        receives_only,
        "rank 1 waits in step 2 for rank 0, which has",
    ),
    (
        "recursive_doubling",
        "all_gather",
        8,
        (5, 2),
        one_block_less,
        "rank 1 waits for blocks 4-7 from rank 5, which",
    ),
    (
        "bruck",
        "all_gather",
        6,
        (4, 2),
        next_peer,
        "rank 0 waits in step 2 for rank 4 to send blocks 4, 5; rank 4",
    ),
    (
        "bruck",
        "all_gather",
        7,
        (2, 1),
        other_order,
        "waits for blocks 2, 3 from rank 2, which sends blocks 3, 2",
    ),
    (
        "bruck",
        "all_gather",
        8,
        (7, 2),
        twice,
        "rank 7 waits in step 2 for rank 3, which has ended, to send block",
    ),
    ("pat", "all_gather", 7, (6, 1), left_out, "step 1: rank 6 sends block 4, which it does not hold"),
    (
        "pat",
        "reduce_scatter",
        6,
        (0, 2),
        left_out,
        "rank 2 waits in step 2 for rank 0, which has ended, to send",
    ),
    (
        "direct",
        "all_gather",
        4,
        (2, 0),
        twice,
        "rank 2 waits in step 0 for rank 0, .* and 2 more: nobody can go on",
    ),
    (
        "direct",
        "reduce_scatter",
        4,
        (3, 0),
        other_side,
        "out of rank order: rank 3 reorders operands in step 0",
    ),
    (
        "direct",
        "all_reduce",
        4,
        (2, 1),
        next_block,
        "step 1: rank 1 waits for block 2 from rank 2, which sends block 3",
    ),
    (
        "pairwise",
        "reduce_scatter",
        5,
        (1, 2),
        beyond,
        "step 2: rank 1 has peer 8: another rank below 5 is needed",
    ),
    ("recursive_halving", "reduce_scatter", 8, (3, 0), replaces, "rank 3 loses contributions in step 0"),
    (
        "recursive_halving",
        "reduce_scatter",
        6,
        (1, 3),
        idle,
        "rank 0 waits in step 3 for rank 1, which has ended",
    ),
    ("ordered_halving", "reduce_scatter", 6, (0, 0), other_side, "rank 0 reorders operands in step 0"),
    ("recursive_doubling", "all_reduce", 8, (6, 1), other_side, "rank 6 reorders operands in step 1"),
    (
        "rabenseifner",
        "all_reduce",
        8,
        (1, 3),
        combines,
        "step 3: rank 1 adds .* of rank 1, 3, 5, 7 to block 0 tw",
    ),
    ("tree", "all_reduce", 7, (4, 0), other_side, "rank 4 reorders operands in step 0"),
    (
        "tree",
        "all_reduce",
        6,
        (2, 5),
        next_peer,
        "rank 3 waits in step 5 for rank 2 to send .* rank 2 waits in st",
    ),
    ("two_level_2", "all_reduce", 6, (3, 1), replaces, "of rank 2, 3: rank 3 loses contributions in step 1"),
    (
        "two_level_4",
        "all_reduce",
        8,
        (5, 6),
        left_out,
        "step 6: rank 5 waits for blocks 4, 5 from rank 4, which",
    ),
    (
        "bidirectional_ring",
        "all_reduce",
        4,
        (2, 4),
        left_out,
        r"step 4: rank 2 waits for block \(3, 0\) from rank 1",
    ),
    (
        "binomial",
        "broadcast",
        6,
        (0, 1),
        next_peer,
        "rank 0 waits in step 1 for rank 3 to receive",
    ),
    ("chain", "broadcast", 4, (1, 2), next_block, "step 2: rank 1 sends block 2, which it does not hold"),
    (
        "scatter_all_gather",
        "broadcast",
        5,
        (2, 4),
        sends_only,
        "step 5: rank 2 sends block 0, which it does",
    ),
    (
        "binomial",
        "reduce",
        6,
        (2, 0),
        replaces,
        "rank 2 loses contributions in step 0",
    ),
    (
        "ordered_binomial",
        "reduce",
        6,
        (4, 0),
        other_side,
        "rank 4 reorders operands in step 0",
    ),
    (
        "ring_gather",
        "reduce",
        4,
        (1, 1),
        replaces,
        "rank 1 loses contributions in step 1",
    ),
    ("binomial", "gather", 6, (4, 0), left_out, "step 1: rank 4 sends block 5, which it does not hold"),
    ("direct", "gather", 4, (2, 0), next_block, "step 0: rank 2 sends block 3, which it does not hold"),
    (
        "binomial",
        "scatter",
        6,
        (0, 0),
        one_block_less,
        "step 0: rank 4 waits for blocks 4, 5 from rank 0",
    ),
    (
        "direct",
        "scatter",
        4,
        (0, 0),
        next_block,
        "step 0: rank 1 waits for block 1 from rank 0",
    ),
    (
        "pairwise",
        "all_to_all",
        5,
        (1, 2),
        other_way,
        r"rank 1, which sends block \(4, 1\)",
    ),
    (
        "bruck",
        "all_to_all",
        6,
        (2, 1),
        one_block_less,
        r"rank 2, which sends block \(1, 4\)",
    ),
    ("direct", "all_to_all", 4, (3, 0), beyond, "step 0: rank 3 has peer 4: another rank below 4 is needed"),
    (
        "dissemination",
        "barrier",
        6,
        (5, 2),
        idle,
        "rank 1 waits in step 2 for rank 5, which has ended",
    ),
    (
        "recursive_doubling",
        "scan",
        7,
        (3, 1),
        other_side,
        "rank 3 reorders operands in step 1",
    ),
    (
        "recursive_doubling",
        "exscan",
        5,
        (3, 1),
        other_side,
        "rank 3 reorders operands in step 1",
    ),
]


@pytest.mark.parametrize(
    ("name", "collective", "world_size", "at", "change", "message"),
    FAULTS,
    ids=[f"{name}-{collective}-{n}" for n, (name, collective, *_) in enumerate(FAULTS)],
)
def test_a_planted_fault_is_refuted_in_words_and_shown_in_its_place(
    name: str, collective: str, world_size: int, at: Place, change: Change, message: str
) -> None:
    good = ALGORITHMS[name, collective]
    verify(planted(good, at, lambda step, size: step), world_size)
    bad = planted(good, at, change)
    with pytest.raises(
        ScheduleError, match=f"^broken {collective} on {world_size} ranks.*{message}"
    ) as caught:
        verify(bad, world_size)
    rank, step = at
    named = {at, (rank, step + 1)} & set(caught.value.places)
    assert named, "where a rank left something out it stands a step further on"
    rows = show_fault(bad, world_size, caught.value.places).splitlines()
    for rank, step in named:
        start = rows[0].index(f"rank {rank}")
        assert rows[1 + step].startswith(str(step))
        assert rows[1 + step][start] == "["


def test_a_fault_is_planted_in_every_algorithm_of_the_table() -> None:
    assert {(name, collective) for name, collective, *_ in FAULTS} == set(ALGORITHMS)
