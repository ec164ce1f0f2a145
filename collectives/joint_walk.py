"""All ranks of a schedule walked together, with no data: who has contributed to what, and who waits for whom.

A send waits until its receive has been posted, as if there were no buffering at all, so a schedule that
comes to its end cannot deadlock on any transport. A block's value is the set of ranks whose contributions are
in it.

Why one walk is enough: messages between two ranks keep their order, and no rank ever chooses between
messages, so whatever the timing, the same sends meet the same receives (G. Kahn, The semantics of a simple
language for parallel programming, 1974).
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from collectives.algorithms import Algorithm
from collectives.schedule import Block, Place, Recv, ScheduleError, Send, Step, names
from collectives.well_formed import checked_steps, most_steps


class Value(NamedTuple):
    """Whose contributions a block holds, a bit for each rank, and whether they stand in rank order."""

    ranks: int
    first: int
    last: int
    in_order: bool

    def then(self, right: "Value") -> "Value":
        in_order = self.in_order and right.in_order and self.last < right.first
        return Value(self.ranks | right.ranks, self.first, right.last, in_order)


Values = list[Value]


@dataclass(slots=True)
class WalkingRank:
    """A rank in the middle of its schedule."""

    rank: int
    steps: Iterator[Step]
    blocks: dict[Block, Value]
    step: Step = ()
    number: int = 0  # of steps that are over
    unmatched: int = 0
    ended: bool = False
    arrived: dict[int, Values] = field(default_factory=dict)  # by place in the step
    sent: list[Block] = field(default_factory=list)
    received: list[Block] = field(default_factory=list)


class _Posted(NamedTuple):
    """An operation that waits for its other end."""

    rank: WalkingRank
    place: int
    operation: Send | Recv
    values: Values


class Walked(NamedTuple):
    """The ranks at the end of their schedules, and where they first did what a broken promise may come from.

    ``suspects``: by what is done and the block, the place where it is first done.
    """

    ranks: list[WalkingRank]
    suspects: dict[tuple[str, Block], Place]


def walk_together(algorithm: Algorithm, world_size: int) -> Walked:
    """All ranks, walked to their ends. ScheduleError if they do not get there, and why."""
    walk = _Walk(algorithm, world_size)
    walk.run()
    return Walked(walk.ranks, walk.suspects)


class _Walk:
    def __init__(self, algorithm: Algorithm, world_size: int) -> None:
        self.name = f"{algorithm} on {world_size} ranks"
        promise = algorithm.promise
        limit = most_steps(world_size, len(promise.contributors(world_size)))
        self.ranks = []
        for rank in range(world_size):
            own = Value(1 << rank, rank, rank, True)
            steps = checked_steps(algorithm, rank, world_size, limit)
            self.ranks.append(
                WalkingRank(rank, steps, dict.fromkeys(promise.starts_with(rank, world_size), own))
            )
        self.suspects: dict[tuple[str, Block], Place] = {}
        # By (sender, receiver): what has been posted and has not met its other end. One of the two is empty.
        self.sends: dict[tuple[int, int], deque[_Posted]] = defaultdict(deque)
        self.recvs: dict[tuple[int, int], deque[_Posted]] = defaultdict(deque)

    def run(self) -> None:
        ready = deque(self.ranks)
        while ready:
            rank = ready.popleft()
            step = next(rank.steps, None)
            if step is None:
                rank.ended = True
                continue
            rank.step, rank.arrived, rank.unmatched = step, {}, len(step)
            for place, operation in enumerate(step):
                other = self._post(rank, place, operation)
                if other is not None:
                    rank.unmatched -= 1
                    other.unmatched -= 1
                    if not other.unmatched:
                        self._land(other)
                        ready.append(other)
            if not rank.unmatched:
                self._land(rank)
                ready.append(rank)
        self._check_all_met()

    def _post(self, rank: WalkingRank, place: int, operation: Send | Recv) -> WalkingRank | None:
        """The rank whose operation this one meets, if it waits already."""
        if isinstance(operation, Send):
            pair = rank.rank, operation.peer
            held, here, there = rank.blocks, self.sends, self.recvs
            try:
                values = [held[block] for block in operation.blocks]
            except KeyError as missing:
                raise self._not_held(rank, "sends", missing.args[0]) from None
        else:
            pair = operation.peer, rank.rank
            values = []
            here, there = self.recvs, self.sends
        waiting = there[pair]
        if not waiting:
            here[pair].append(_Posted(rank, place, operation, values))
            return None
        other = waiting.popleft()
        if other.operation.blocks != operation.blocks:
            raise self._mismatch(rank, operation, other)
        if isinstance(operation, Send):
            other.rank.arrived[other.place] = values
        else:
            rank.arrived[place] = other.values
        return other.rank

    def _land(self, rank: WalkingRank) -> None:
        """The step is over: its receives take effect, in the order listed."""
        held = rank.blocks
        for place, operation in enumerate(rank.step):
            if isinstance(operation, Send):
                rank.sent += operation.blocks
                continue
            rank.received += operation.blocks
            for block, incoming in zip(operation.blocks, rank.arrived[place], strict=True):
                own = held.get(block)
                if operation.combine is None:
                    if own is not None and own.ranks & ~incoming.ranks:
                        self._suspect("loses contributions", rank, block)
                    held[block] = incoming
                    continue
                if own is None:
                    raise self._not_held(rank, "combines into", block)
                if own.ranks & incoming.ranks:
                    twice = members(own.ranks & incoming.ranks)
                    raise self._error(rank, f"adds the contribution of rank {twice} to block {block} twice")
                left, right = (incoming, own) if operation.combine == "before" else (own, incoming)
                held[block] = combined = left.then(right)
                if left.in_order and right.in_order and not combined.in_order:
                    self._suspect("reorders operands", rank, block)
        rank.number += 1

    def _suspect(self, deed: str, rank: WalkingRank, block: Block) -> None:
        self.suspects.setdefault((deed, block), (rank.rank, rank.number))

    def _not_held(self, rank: WalkingRank, verb: str, block: Block) -> ScheduleError:
        return self._error(rank, f"{verb} block {block}, which it does not hold")

    def _mismatch(self, rank: WalkingRank, operation: Send | Recv, other: _Posted) -> ScheduleError:
        here = rank, operation.blocks
        there = other.rank, other.operation.blocks
        (sender, sent), (receiver, awaited) = (here, there) if isinstance(operation, Send) else (there, here)
        return self._error(
            receiver,
            f"waits for {_named(awaited)} from rank {sender.rank}, which sends {_named(sent)}",
            sender,
        )

    def _check_all_met(self) -> None:
        waits = [posted for queue in (*self.recvs.values(), *self.sends.values()) for posted in queue]
        if waits:
            missing = [peer for peer in (self.ranks[w.operation.peer] for w in waits) if peer.ended]
            more = f", and {len(waits) - 4} more" if len(waits) > 4 else ""
            raise ScheduleError(
                f"{self.name}: {'; '.join(map(self._wait, waits[:4]))}{more}: nobody can go on",
                *dict.fromkeys((one.rank, one.number) for one in (*(w.rank for w in waits), *missing)),
            )

    def _wait(self, posted: _Posted) -> str:
        rank, _, operation, _ = posted
        verb = "receive" if isinstance(operation, Send) else "send"
        ended = ", which has ended," if self.ranks[operation.peer].ended else ""
        return (
            f"rank {rank.rank} waits in step {rank.number} for rank {operation.peer}{ended} "
            f"to {verb} {_named(operation.blocks)}"
        )

    def _error(self, rank: WalkingRank, fault: str, *others: WalkingRank) -> ScheduleError:
        return ScheduleError(
            f"{self.name}, step {rank.number}: rank {rank.rank} {fault}",
            *((one.rank, one.number) for one in (rank, *others)),
        )


def _named(blocks: tuple[Block, ...]) -> str:
    return f"block{'s' * (len(blocks) != 1)} {names(blocks)}"


def members(ranks: int) -> str:
    """The ranks whose bits are set."""
    return names(tuple(rank for rank in range(ranks.bit_length()) if ranks >> rank & 1))
