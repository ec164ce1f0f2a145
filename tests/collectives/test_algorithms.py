"""What the algorithms of the table declare is what they do: their cost, and where they may be used."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectives.algorithms import ALGORITHMS, Algorithm, find_algorithm, halving, pat, two_level
from collectives.algorithms.algorithm import POWER_OF_TWO, Cost
from collectives.communicator import Communicator
from collectives.offsets import bind
from collectives.operators import Operator
from collectives.promises import ALL_GATHER, REDUCE_SCATTER
from collectives.schedule import Send
from collectives.verify import verify

EVERY = pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=str)
SIZES = range(1, 18)


def value(formula: str, p: int, h: int = 1) -> float:
    """What ``2(p - 1) + ⌈log p⌉`` is: log to base 2, r how far p is above a power of two, [a > b] 1 or 0.

    q is the largest power of two below p.
    """
    words = {"⌈log(p - 1)⌉": "below", "max(": "max (", "bits(": "bits ("}
    words |= {"⌈log p⌉": "up", "⌊log p⌋": "down", "log p": "down", "[": "(", "]": ")"}
    for word, name in words.items():
        formula = formula.replace(word, name)
    formula = re.sub(r"(?<=[\w)])(?=\()|(?<=[0-9p])(?=up|down|below)", "*", formula)
    down, up, below = p.bit_length() - 1, (p - 1).bit_length(), max(0, p - 2).bit_length()
    values = {"p": p, "h": h, "up": up, "down": down, "below": below, "r": p - 2**down, "q": 2**up // 2}
    return float(eval(formula, {**values, "bits": bits}))


def bits(p: int) -> int:
    """How many bits are set in the numbers below p."""
    return sum(map(int.bit_count, range(p)))


def documentation(algorithm: Algorithm) -> str:
    function = algorithm.schedule.func if isinstance(algorithm.schedule, partial) else algorithm.schedule
    return str(function.__doc__)


def ranks_a_host(algorithm: Algorithm) -> int:
    return int(algorithm.name[-1]) if algorithm.name.startswith("two_level") else 1


@EVERY
def test_the_cost_in_words_is_the_one_that_is_declared_and_proved(algorithm: Algorithm) -> None:
    words = re.search(
        r"Cost: (.*) steps, (every|the busiest) rank sends (.*) blocks", documentation(algorithm)
    )
    assert words is not None, "a docstring says: Cost: ... steps, every rank sends ... blocks"
    steps, who, blocks_sent = words.groups()
    assert algorithm.cost is not None
    for p in filter(algorithm.limit.allows, SIZES):
        h = ranks_a_host(algorithm)
        assert algorithm.cost.steps(p) == value(steps, p, h)
        assert algorithm.cost.blocks_sent(p) == value(blocks_sent, p, h)
        proof = verify(algorithm, p)
        assert set(proof.steps) == {value(steps, p, h)}
        sent = {len(blocks) / algorithm.parts for blocks in proof.sent}
        assert max(sent) == value(blocks_sent, p, h)
        assert who == "the busiest" or len(sent) == 1


def test_the_documented_table_is_the_one_of_the_algorithms() -> None:
    table = Path(__file__).parents[2].joinpath("collectives", "algorithms", "README.md").read_text()
    rows = re.findall(r"^\| (\w+) \| (`.*) \| (.*) \| (.*) \| (.*) \| (.*)\|$", table, re.MULTILINE)
    described = []
    for collective, names, steps, blocks_sent, ranks, in_order in rows:
        for name in re.findall(r"`(\w+)`", names):
            algorithm = ALGORITHMS[name, collective]
            described.append(algorithm)
            assert algorithm.cost is not None
            h = ranks_a_host(algorithm)
            assert ranks.replace("h", str(h)) == algorithm.limit.words
            assert in_order.strip() == (
                "" if not algorithm.collective.reduces else "no" if algorithm.commutative_only else "yes"
            )
            for p in filter(algorithm.limit.allows, range(2, 65)):
                assert value(steps, p, h) == algorithm.cost.steps(p)
                assert value(blocks_sent, p, h) == algorithm.cost.blocks_sent(p)
    assert described == list(ALGORITHMS.values())


@EVERY
def test_a_rank_never_sends_less_than_it_must(algorithm: Algorithm) -> None:
    """On average p - 1 blocks, to gather or to scatter: so none is forgotten in the count."""
    name = algorithm.collective.name
    for p in filter(algorithm.limit.allows, SIZES):
        # Only the root gathers or scatters, and what is below a rank need not come from every rank.
        passes = {"all_reduce": 2, "gather": 1 / p, "scatter": 1 / p, "exscan": 1 / 2}.get(name, 1)
        sent = sum(map(len, verify(algorithm, p).sent)) / algorithm.parts
        assert sent >= passes * p * (p - 1)


LIMITED: list[tuple[str, str, tuple[int, ...]]] = [
    ("recursive_doubling", "all_gather", (1, 2, 4, 8, 16)),
    ("neighbor_exchange", "all_gather", (2, 4, 6, 8, 10, 12, 14, 16)),
    ("two_level_2", "all_reduce", (2, 4, 6, 8, 10, 12, 14, 16)),
    ("two_level_4", "all_reduce", (4, 8, 12, 16)),
]


@EVERY
def test_an_algorithm_is_for_any_number_of_ranks_or_says_for_which(algorithm: Algorithm) -> None:
    limits = {(name, collective): sizes for name, collective, sizes in LIMITED}
    allowed = limits.get((algorithm.name, algorithm.collective.name), tuple(SIZES))
    assert tuple(filter(algorithm.limit.allows, SIZES)) == allowed


REFUSALS = [
    (
        "recursive_doubling",
        "all_gather",
        6,
        "recursive_doubling all_gather needs a world size that is a power of two, and 6 is not: "
        "take ring, bidirectional_ring, neighbor_exchange, bruck, pat, direct",
    ),
    (
        "neighbor_exchange",
        "all_gather",
        3,
        "neighbor_exchange all_gather needs a world size that is even, and 3 is not: "
        "take ring, bidirectional_ring, bruck, pat, direct",
    ),
    (
        "two_level_4",
        "all_reduce",
        6,
        "two_level_4 all_reduce needs a world size that is a multiple of 4, and 6 is not: "
        "take ring, bidirectional_ring, direct, recursive_doubling, rabenseifner, tree, two_level_2",
    ),
]


@pytest.mark.parametrize(
    ("name", "collective", "world_size", "message"), REFUSALS, ids=[r[0] for r in REFUSALS]
)
def test_a_limit_is_kept_on_every_rank_and_names_what_would_do(
    run_ranks, name: str, collective: str, world_size: int, message: str
) -> None:
    def body(comm: Communicator) -> None:
        whole = np.arange(2 * world_size)
        source = whole[:2] if collective == "all_gather" else whole
        with pytest.raises(ValueError, match=f"^{message}$"):
            getattr(comm, collective)(source, np.empty_like(whole), algorithm=name)
        for other in message.rpartition("take ")[2].split(", "):
            getattr(comm, collective)(source.copy(), np.empty_like(whole), algorithm=other).wait()

    run_ranks(body)
    with pytest.raises(ValueError, match=f"^{message}$"):
        verify(ALGORITHMS[name, collective], world_size)


LEFT = Operator("left", lambda left, right, out: np.copyto(out, left), commutative=False)


@pytest.mark.parametrize(
    ("collective", "would_do"),
    [("reduce_scatter", "ordered_halving, direct"), ("all_reduce", "direct, recursive_doubling, tree")],
)
@pytest.mark.parametrize("world_size", [3])
def test_an_operator_that_does_not_commute_is_told_which_algorithms_keep_order(
    run_ranks, world_size: int, collective: str, would_do: str
) -> None:
    def body(comm: Communicator) -> None:
        arrays = np.ones(3), np.ones(1 if collective == "reduce_scatter" else 3)
        with pytest.raises(ValueError, match=f"'left' does not commute: take {would_do}$"):
            getattr(comm, collective)(*arrays, operator=LEFT)

    run_ranks(body)


def test_a_cost_that_is_not_the_declared_one_is_refuted_with_both_numbers() -> None:
    ring = ALGORITHMS["ring", "all_gather"]
    for cost, fault in (
        (Cost(lambda p: p, lambda p: p - 1), "rank 0 takes 3 steps, and 4 are declared"),
        (Cost(lambda p: p - 1, lambda p: p), "rank 0 sends most, 3 blocks, and 4 are declared"),
    ):
        with pytest.raises(Exception, match=f"^dear all_gather on 4 ranks: {fault}$"):
            verify(Algorithm("dear", ALL_GATHER, ring.schedule, cost=cost), 4)


def test_an_all_reduce_sold_as_a_reduce_scatter_is_refuted_by_its_cost() -> None:
    sold = Algorithm(
        "ring",
        REDUCE_SCATTER,
        ALGORITHMS["ring", "all_reduce"].schedule,
        commutative_only=True,
        cost=ALGORITHMS["ring", "reduce_scatter"].cost,
    )
    with pytest.raises(Exception, match="rank 0 takes 6 steps, and 3 are declared"):
        verify(sold, 4)


# What tells a family from the others.


def messages(algorithm: Algorithm, world_size: int) -> list[tuple[int, int, int]]:
    """(step, how far, blocks) of all messages of rank 0."""
    steps = enumerate(algorithm.schedule(0, world_size))
    return [
        (number, min(op.peer, world_size - op.peer), len(op.blocks))
        for number, step in steps
        for op in step
        if isinstance(op, Send)
    ]


def test_bruck_sends_most_the_furthest_and_pat_the_least() -> None:
    bruck = messages(find_algorithm("bruck", "all_gather"), 32)
    assert [(far, blocks) for _, far, blocks in bruck] == [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16)]
    far_first = messages(find_algorithm("pat", "all_gather"), 32)
    assert [(far, blocks) for _, far, blocks in far_first] == [(16, 1), (8, 2), (4, 4), (2, 8), (1, 16)]


@pytest.mark.parametrize("most_blocks", [1, 2, 3, 8])
@pytest.mark.parametrize("world_size", [1, 2, 3, 7, 8, 13, 32])
def test_pat_with_small_messages_is_proved_and_needs_little_scratch(
    world_size: int, most_blocks: int
) -> None:
    gather = Algorithm("pat", ALL_GATHER, partial(pat.all_gather, most_blocks=most_blocks))
    scatter = Algorithm("pat", REDUCE_SCATTER, partial(pat.reduce_scatter, most_blocks=most_blocks), True)
    for algorithm in (gather, scatter):
        proof = verify(algorithm, world_size)
        assert {len(sent) for sent in proof.sent} == {world_size - 1}
        assert max((blocks for _, _, blocks in messages(algorithm, world_size)), default=0) <= most_blocks
    scratch = bind(scatter, 0, (1,) * world_size, 8, False, 1).scratch_size
    assert scratch <= most_blocks * (2 + (world_size - 1).bit_length())


def test_far_first_halving_sends_blocks_that_lie_side_by_side() -> None:
    binding = bind(find_algorithm("recursive_halving", "reduce_scatter"), 3, (4,) * 8, 8, False, 1)
    assert not any(one.pack for one in binding.lanes[0])
    ordered = bind(find_algorithm("ordered_halving", "reduce_scatter"), 3, (4,) * 8, 8, False, 1)
    assert any(one.pack for one in ordered.lanes[0])


@pytest.mark.parametrize(("ranks_a_host", "num_hosts"), [(1, 4), (2, 3), (4, 2), (4, 4), (5, 1)])
def test_two_levels_share_out_what_leaves_a_host(ranks_a_host: int, num_hosts: int) -> None:
    world_size = ranks_a_host * num_hosts
    algorithm = two_level.on_hosts_of(ranks_a_host)
    verify(algorithm, world_size)
    for rank in range(world_size):
        leaving = [
            len(op.blocks)
            for step in algorithm.schedule(rank, world_size)
            for op in step
            if isinstance(op, Send) and op.peer // ranks_a_host != rank // ranks_a_host
        ]
        assert sum(leaving) == 2 * (num_hosts - 1)


@pytest.mark.parametrize("world_size", [6, 7, 12])
def test_who_is_folded_in_gives_all_idles_and_is_given_its_block(world_size: int) -> None:
    for schedule in (halving.reduce_scatter, halving.ordered_reduce_scatter):
        first, *idle, last = schedule(1, world_size)
        assert first == (Send(0, tuple(range(world_size))),)
        assert set(idle) == {()}
        assert [(op.peer, op.blocks) for op in last] == [(0, (1,))]


@pytest.mark.parametrize("ranks_a_host", [0, -1, 1.5])
def test_hosts_without_ranks_are_refused(ranks_a_host: Any) -> None:
    with pytest.raises(ValueError, match=f"hosts of {ranks_a_host} ranks: give a whole number from 1"):
        two_level.on_hosts_of(ranks_a_host)


def test_blocks_in_parts_are_cut_as_evenly_as_they_go() -> None:
    ring = ALGORITHMS["bidirectional_ring", "all_gather"]
    assert ring.block_sizes((3, 0)) == {(0, 0): 2, (0, 1): 1, (1, 0): 0, (1, 1): 0}
    assert ring.promise.starts_with(1, 2) == ((1, 0), (1, 1))
    assert ring.promise.ends_with(1, 2) == ((0, 0), (0, 1), (1, 0), (1, 1))


def test_a_bidirectional_ring_sends_half_each_way() -> None:
    ring = ALGORITHMS["bidirectional_ring", "reduce_scatter"]
    sent = [op for step in ring.schedule(3, 7) for op in step if isinstance(op, Send)]
    assert [op.peer for op in sent] == [4, 2] * 6
    assert [half for op in sent for _, half in op.blocks] == [0, 1] * 6  # type: ignore[misc]


@pytest.mark.parametrize("parts", [0, -1, 1.5])
def test_an_algorithm_of_no_parts_is_refused(parts: Any) -> None:
    with pytest.raises(ValueError, match=f"mine all_gather cuts blocks into {parts} parts: give a whole"):
        Algorithm("mine", ALL_GATHER, ALGORITHMS["ring", "all_gather"].schedule, parts=parts)


@pytest.mark.parametrize("world_size", [0, 1, 2, 3, 4, 6, 64, 65])
def test_powers_of_two_are_those(world_size: int) -> None:
    allowed: Callable[[int], bool] = POWER_OF_TWO.allows
    assert allowed(world_size) == (world_size in {2**k for k in range(10)})
