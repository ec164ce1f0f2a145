"""Plan and engine against a second interpreter that has no buffers: names, values, and nothing else.

The engine packs, stages and reuses memory; the reference below does none of that. Both run the same
schedules, written ones that are not in the table and random ones, and must end with the same numbers. All
ranks of a run live in this thread, so a thousand runs are quick.
"""

import random
from collections import defaultdict, deque
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.algorithms import Algorithm, find_algorithm, ring
from collectives.blocks import bounds
from collectives.engine import place, walk
from collectives.ledger import Call, Label
from collectives.offsets import bind
from collectives.operators import Operator
from collectives.promises import ALL_GATHER, ALL_REDUCE, Blocks, Collective
from collectives.schedule import Recv, Schedule, Send, Step, rename, together
from collectives.transports.checking import CheckingTransport
from collectives.transports.delaying import DelayingTransport
from collectives.transports.threads import ThreadWorld
from collectives.verify import verify

Array = npt.NDArray[Any]

POISON = 0xDEAD
MIX = Operator(
    "mix", lambda left, right, out: np.copyto(out, left * np.uint64(31) + right * np.uint64(17)), False
)
"""Neither commutative nor associative: any other order of operands, or of receives, is another number."""


def test_a_block_that_is_no_ranks_is_refused_by_name() -> None:
    def halves(rank: int, world_size: int) -> Schedule:
        yield Send(1 - rank, ((rank, "upper"),)), Recv(1 - rank, ((1 - rank, "upper"),))

    whole = Collective(
        "all_gather", lambda rank, size: ((rank, "upper"),), lambda rank, size: (), reduces=False
    )
    with pytest.raises(
        ValueError, match=r"halves all_gather names block \(0, 'upper'\): .* blocks 0 to 1, one"
    ):
        bind(Algorithm("halves", whole, halves), 0, (1, 1), 8, False, 1)


def start_values(algorithm: Algorithm, sizes: tuple[int, ...]) -> list[dict[Any, Array]]:
    random_numbers = np.random.default_rng(0)
    return [
        {
            block: random_numbers.integers(1, 2**32, sizes[block], np.uint64)
            for block in algorithm.collective.starts_with(rank, len(sizes))
        }
        for rank in range(len(sizes))
    ]


def interpret(algorithm: Algorithm, sizes: tuple[int, ...]) -> list[dict[Any, Array]]:
    """What each rank holds in the end: all ranks take step s together, as the rules of a step say."""
    world_size = len(sizes)
    held = start_values(algorithm, sizes)
    schedules = [algorithm.schedule(rank, world_size) for rank in range(world_size)]
    current: list[Step | None] = [next(schedule, None) for schedule in schedules]
    wires: dict[tuple[int, int], deque[Array]] = defaultdict(deque)
    posted = [False] * world_size
    while any(step is not None for step in current):
        for rank, step in enumerate(current):
            if step is not None and not posted[rank]:
                posted[rank] = True
                for op in step:
                    if isinstance(op, Send):
                        wires[rank, op.peer].extend(held[rank][block].copy() for block in op.blocks)
        news = False
        for rank, step in enumerate(current):
            wanted: dict[int, int] = defaultdict(int)
            for op in step or ():
                if isinstance(op, Recv):
                    wanted[op.peer] += len(op.blocks)
            if step is None or any(len(wires[peer, rank]) < num for peer, num in wanted.items()):
                continue
            for op in step:
                if isinstance(op, Recv):
                    for block in op.blocks:
                        incoming = wires[op.peer, rank].popleft()
                        if op.combine is not None:
                            own = held[rank][block]
                            pair = (incoming, own) if op.combine == "before" else (own, incoming)
                            incoming = MIX.combine(*pair, out=(out := np.empty_like(own))) or out
                        held[rank][block] = incoming
            current[rank], posted[rank], news = next(schedules[rank], None), False, True
        assert news, "the schedule hangs"
    return held


def execute(
    algorithm: Algorithm,
    sizes: tuple[int, ...],
    *,
    num_chunks: int = 1,
    in_place: bool = False,
    seed: int = 0,
) -> list[dict[Any, Array]]:
    """What each rank's output holds after a real run with poisoned memory, checked and delayed."""
    world_size = len(sizes)
    world = ThreadWorld(world_size)
    call = Call(0, algorithm.collective.name, algorithm.name, Label())
    starts = start_values(algorithm, sizes)
    outputs, inputs, transports, lanes = [], [], [], []
    for rank in range(world_size):
        binding = bind(algorithm, rank, sizes, 8, in_place, num_chunks)
        output = np.full(binding.output_size, POISON, np.uint64)
        given_blocks = algorithm.collective.starts_with(rank, world_size)
        if in_place:
            ends = algorithm.collective.ends_with(rank, world_size)
            held_blocks = max(given_blocks, ends, key=len)
            for block, where in zip(held_blocks, bounds([sizes[b] for b in held_blocks]), strict=True):
                output[where] = starts[rank].get(block, POISON)
            source = output
        else:
            parts = [starts[rank][block] for block in given_blocks]
            source = np.concatenate([np.empty(0, np.uint64), *parts])
            source.flags.writeable = False
        scratch = np.full(binding.scratch_size, POISON, np.uint64)
        transport = DelayingTransport(CheckingTransport(world.transport(rank)), seed)
        transports.append(transport)
        outputs.append(output)
        inputs.append((source, source.copy()))
        for chunk, rounds in enumerate(binding.lanes):
            placed = place(rounds, scratch, output, source, MIX)
            lanes.append((rank, walk(placed, transport, chunk, call, chunk)))
    waiting = deque((rank, lane, next(lane, None)) for rank, lane in lanes)
    for _ in range(100_000):
        if not waiting:
            break
        rank, lane, step = waiting.popleft()
        if step is None:
            continue
        if transports[rank].landed(step[0]):
            step = next(lane, None)
        waiting.append((rank, lane, step))
    assert not waiting, "the run hangs"
    held = []
    for rank, output in enumerate(outputs):
        starts_with = algorithm.collective.starts_with(rank, world_size)
        blocks = algorithm.collective.ends_with(rank, world_size)
        if in_place:
            blocks = max(starts_with, blocks, key=len)
        else:
            source, before = inputs[rank]
            assert (source == before).all()
        places = bounds([sizes[block] for block in blocks])
        held.append({block: output[place] for block, place in zip(blocks, places, strict=True)})
    return held


def assert_same(algorithm: Algorithm, sizes: tuple[int, ...], **how: Any) -> None:
    expected, found = interpret(algorithm, sizes), execute(algorithm, sizes, **how)
    for rank in range(len(sizes)):
        for block in algorithm.collective.ends_with(rank, len(sizes)):
            assert found[rank][block].tolist() == expected[rank][block].tolist(), (rank, block)


# Algorithms that are in no table.


def doubling_all_reduce(rank: int, world_size: int) -> Schedule:
    """Everything in one message, both ways, with ranks further and further away; operands in rank order."""
    blocks, distance = tuple(range(world_size)), 1
    while distance < world_size:
        peer = rank ^ distance
        yield Send(peer, blocks), Recv(peer, blocks, "before" if peer < rank else "after")
        distance *= 2


def direct_all_gather(rank: int, world_size: int) -> Schedule:
    """Everybody sends to everybody at once."""
    others = [peer for peer in range(world_size) if peer != rank]
    step = tuple(op for peer in others for op in (Send(peer, (rank,)), Recv(peer, (peer,))))
    if step:
        yield step


def star_all_gather(rank: int, world_size: int) -> Schedule:
    """Rank 0 collects, and hands out all blocks in an odd order: far from side by side in memory."""
    others = range(1, world_size)
    order = tuple(range(1, world_size, 2)) + tuple(reversed(range(0, world_size, 2)))
    if rank == 0:
        yield tuple(Recv(peer, (peer,)) for peer in others)
        yield tuple(Send(peer, order) for peer in others)
    else:
        yield (Send(0, (rank,)),)
        yield (Recv(0, order),)


def two_way_all_gather(rank: int, world_size: int) -> Schedule:
    """Near blocks from the left come round to the right, the others the other way: half the steps."""

    def mirror(name: Any) -> int:
        return -name % world_size

    right = list(ring.all_gather(rank, world_size))[: world_size // 2]
    left = list(rename(ring.all_gather(mirror(rank), world_size), block=mirror, peer=mirror))
    return together(iter(right), iter(left[: (world_size - 1) // 2]))


def rank_order_reduce(rank: int, world_size: int) -> Schedule:
    """Rank 0 takes all operands in one step, the receives listed in rank order, and hands out the result."""
    blocks = tuple(range(world_size))
    if rank == 0:
        yield tuple(Recv(peer, blocks, "after") for peer in range(1, world_size))
        yield tuple(Send(peer, blocks) for peer in range(1, world_size))
    else:
        yield (Send(0, blocks),)
        yield (Recv(0, blocks),)


def rotate_and_back(rank: int, world_size: int) -> Schedule:
    """Each step replaces the very block that it sends; after world_size steps all is as it was."""
    for _ in range(world_size):
        yield Send((rank + 1) % world_size, (0,)), Recv((rank - 1) % world_size, (0,))


def parcel(rank: int, world_size: int) -> Schedule:
    """Rank 1 keeps three blocks for rank 0, is given two of them anew, and sends all back in one message."""
    if rank == 0:
        yield (Send(1, (0, 1, 2)),)
        yield Send(2, (1, 2)), Recv(2, (1, 2), "before")
        yield (Send(1, (1, 2)),)
        yield (Recv(1, (0, 1, 2)),)
    elif rank == 1:
        yield (Recv(0, (0, 1, 2)),)
        yield (Recv(0, (1, 2)),)
        yield (Send(0, (0, 1, 2)),)
    else:
        yield Recv(0, (1, 2)), Send(0, (1, 2))


def starts_with_parcel(rank: int, world_size: int) -> Blocks:
    return ((0, 1, 2), (), (1, 2))[rank]


PARCEL = Collective(
    "parcel", starts_with_parcel, lambda rank, size: (0, 1, 2) if rank == 0 else (), reduces=True
)
ROTATION = Collective("rotation", lambda rank, size: (0,), lambda rank, size: (0,), False)

WRITTEN = [
    (Algorithm("doubling", ALL_REDUCE, doubling_all_reduce), (1, 2, 4, 8)),
    (Algorithm("direct", ALL_GATHER, direct_all_gather), (1, 2, 3, 5, 8)),
    (Algorithm("star", ALL_GATHER, star_all_gather), (2, 3, 5, 8)),
    (Algorithm("two-way ring", ALL_GATHER, two_way_all_gather), (1, 2, 3, 4, 5, 8)),
    (Algorithm("rank order", ALL_REDUCE, rank_order_reduce), (2, 3, 5, 8)),
    (Algorithm("rotation", ROTATION, rotate_and_back), (2, 3, 5)),
    (Algorithm("parcel", PARCEL, parcel), (3,)),
    (Algorithm("ring", ALL_REDUCE, ring.all_reduce, True), (1, 2, 3, 5, 8)),
]
CASES = [
    pytest.param(algorithm, size, id=f"{algorithm}-{size}") for algorithm, sizes in WRITTEN for size in sizes
]


@pytest.mark.parametrize("num_chunks", [1, 3])
@pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])
@pytest.mark.parametrize(("algorithm", "world_size"), CASES)
def test_the_engine_ends_where_a_reader_of_the_schedule_ends(
    algorithm: Algorithm, world_size: int, in_place: bool, num_chunks: int
) -> None:
    if algorithm.collective not in (ROTATION, PARCEL):
        verify(algorithm, world_size)
    uneven = tuple((7 * block + 3) % 5 for block in range(world_size))  # with empty blocks
    for sizes in (uneven, (3,) * world_size, (0,) * world_size):
        assert_same(algorithm, sizes, in_place=in_place, num_chunks=num_chunks, seed=world_size)


def _random_algorithm(choose: random.Random, world_size: int, num_rounds: int) -> Algorithm:
    """Steps that no one would write: any blocks, any number of messages, all kinds of receives at once."""
    blocks = range(world_size)
    starts = [_subset(choose, blocks) for _ in blocks]
    held = [set(start) for start in starts]
    steps: list[list[Step]] = [[] for _ in blocks]
    for _ in range(num_rounds):
        now: list[list[Send | Recv]] = [[] for _ in blocks]
        after = [set(own) for own in held]
        for _ in range(choose.randint(0, 2 * world_size)):
            sender, receiver = choose.randrange(world_size), choose.randrange(world_size)
            if sender == receiver or not held[sender]:
                continue
            message = _subset(choose, sorted(held[sender])) or (min(held[sender]),)
            combine: Any = choose.choice([None, "before", "after"])
            if not set(message) <= held[receiver]:
                combine = None
            now[sender].append(Send(receiver, message))
            now[receiver].append(Recv(sender, message, combine))
            after[receiver] |= set(message)
        held = after
        for rank in blocks:
            steps[rank].append(tuple(now[rank]))
    ends = [_subset(choose, sorted(own)) for own in held]
    collective = Collective("random", lambda rank, size: starts[rank], lambda rank, size: ends[rank], True)
    return Algorithm("random", collective, lambda rank, size: iter(steps[rank]))


def _subset(choose: random.Random, blocks: Any) -> Blocks:
    names = list(blocks)
    return tuple(choose.sample(names, choose.randint(0, len(names))))


@settings(max_examples=300)
@given(
    seed=st.integers(0, 2**32),
    world_size=st.integers(2, 4),
    num_rounds=st.integers(1, 6),
    num_chunks=st.sampled_from([1, 1, 2, 3]),
)
def test_random_schedules_end_where_a_reader_ends(
    seed: int, world_size: int, num_rounds: int, num_chunks: int
) -> None:
    choose = random.Random(seed)
    algorithm = _random_algorithm(choose, world_size, num_rounds)
    sizes = tuple(choose.randint(0, 4) for _ in range(world_size))
    assert_same(algorithm, sizes, num_chunks=num_chunks, seed=seed)


def test_a_ring_reduce_scatter_needs_scratch_for_two_blocks_whatever_the_world_size() -> None:
    for world_size in (4, 8, 64):
        sizes = (10,) * world_size
        for in_place, blocks in ((False, 2), (True, 1)):
            binding = bind(find_algorithm("ring", "reduce_scatter"), 1, sizes, 8, in_place, 1)
            assert binding.scratch_size == blocks * 10


def test_a_ring_all_gather_needs_no_scratch() -> None:
    assert bind(find_algorithm("ring", "all_gather"), 3, (5,) * 8, 4, False, 1).scratch_size == 0


def test_messages_without_bytes_are_left_out_at_both_ends() -> None:
    bindings = [bind(find_algorithm("ring", "all_gather"), rank, (0, 4, 0), 1, False, 1) for rank in range(3)]
    sends = [sum(len(one.sends) for one in binding.lanes[0]) for binding in bindings]
    recvs = [sum(len(one.recvs) for one in binding.lanes[0]) for binding in bindings]
    assert (sends, recvs) == ([0, 1, 1], [1, 0, 1])
