"""Proves a schedule for one world size, with no data: or says in words where it breaks.

A block's value is the set of ranks whose contributions are in it, so "every contribution exactly once" is
proved, not sampled. joint_walk.py says why one walk through the schedule is enough.
"""

from dataclasses import dataclass
from operator import index

from collectives.algorithms import Algorithm, check_limit
from collectives.joint_walk import Value, WalkingRank, members, walk_together
from collectives.schedule import Block, Place, ScheduleError

MOST_ROOTS = 8


@dataclass(frozen=True)
class Proof:
    """What a proved schedule costs, rank by rank: its steps, and the blocks that it sends and receives."""

    steps: tuple[int, ...]
    sent: tuple[tuple[Block, ...], ...]
    received: tuple[tuple[Block, ...], ...]


def roots(algorithm: Algorithm, world_size: int) -> list[int | None]:
    """The roots to prove a schedule for: all of few ranks; of many the first, the middle and the last.

    None for one that has no root.
    """
    if algorithm.collective.root is None:
        return [None]
    if world_size <= MOST_ROOTS:
        return list(range(world_size))
    return [0, world_size // 2, world_size - 1]


def verify(algorithm: Algorithm, world_size: int) -> Proof:
    """The proof that ``algorithm`` keeps its collective's promise on ``world_size`` ranks, at its cost.

    Unless it declares that it is for operators that commute, the operands must also stand in rank order.
    Raises ScheduleError: a counterexample with rank, step and block. Takes time in proportion to messages.
    """
    if not hasattr(world_size, "__index__") or index(world_size) < 1:
        raise ValueError(f"a world of {world_size!r} ranks: give a whole number, 1 or more")
    check_limit(algorithm, world_size)
    ranks, suspects = walk_together(algorithm, world_size)
    _check_promise(algorithm, ranks, suspects)
    _check_cost(algorithm, ranks)
    return Proof(
        tuple(rank.number for rank in ranks),
        tuple(tuple(rank.sent) for rank in ranks),
        tuple(tuple(rank.received) for rank in ranks),
    )


def _check_promise(
    algorithm: Algorithm, ranks: list[WalkingRank], suspects: dict[tuple[str, Block], Place]
) -> None:
    """Every block that is promised holds every contribution, in rank order where that matters."""
    world_size = len(ranks)
    contributors = algorithm.promise.contributors(world_size)
    contributed = {block: sum(1 << rank for rank in those) for block, those in contributors.items()}
    needs = algorithm.promise.needs
    for rank in ranks:
        counts = sum(1 << other for other in needs(rank.rank, world_size)) if needs else -1
        for block in algorithm.promise.ends_with(rank.rank, world_size):
            value = rank.blocks.get(block, Value(0, 0, 0, True))
            fault, deed = "", ""
            if block not in contributed:
                raise _error(algorithm, ranks, f"block {block} is promised, and no rank starts with it")
            needed = contributed[block] & counts
            if needed & ~value.ranks:
                fault = f"without the contribution of rank {members(needed & ~value.ranks)}"
                deed = "loses contributions"
            elif value.ranks != needed:
                fault = f"with the contribution of rank {members(value.ranks & ~needed)}, which is too many"
            elif not value.in_order and not algorithm.commutative_only:
                fault, deed = "with its operands out of rank order", "reorders operands"
            if fault:
                fault = f"rank {rank.rank} ends with block {block} {fault}"
                places = [(rank.rank, rank.number)]
                if suspect := suspects.get((deed, block)):
                    fault += f": rank {suspect[0]} {deed} in step {suspect[1]}"
                    places.append(suspect)
                raise _error(algorithm, ranks, fault, *places)


def _check_cost(algorithm: Algorithm, ranks: list[WalkingRank]) -> None:
    """Steps and blocks sent are those of the algorithm's closed forms, if it declares any."""
    if algorithm.cost is None:
        return
    steps = algorithm.cost.steps(len(ranks))
    for rank in ranks:
        if rank.number != steps:
            fault = f"rank {rank.rank} takes {rank.number} steps, and {steps} are declared"
            raise _error(algorithm, ranks, fault, (rank.rank, rank.number))
    declared = algorithm.cost.blocks_sent(len(ranks))
    busiest = max(ranks, key=lambda rank: len(rank.sent))
    num_sent = len(busiest.sent) / algorithm.parts
    if num_sent != declared:
        fault = f"rank {busiest.rank} sends most, {num_sent:g} blocks, and {declared} are declared"
        raise _error(algorithm, ranks, fault, (busiest.rank, busiest.number))


def _error(algorithm: Algorithm, ranks: list[WalkingRank], fault: str, *places: Place) -> ScheduleError:
    return ScheduleError(f"{algorithm} on {len(ranks)} ranks: {fault}", *places)
