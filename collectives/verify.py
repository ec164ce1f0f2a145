"""Proves a schedule for one world size, with no data: or says in words where it breaks.

All ranks are walked together. A send waits until its receive has been posted, as if there were no buffering
at all, so a schedule that passes cannot deadlock on any transport. A block's value is the set of ranks whose
contributions are in it, so "every contribution exactly once" is proved, not sampled.

Why one walk is enough: messages between two ranks keep their order, and no rank ever chooses between
messages, so whatever the timing, the same sends meet the same receives (G. Kahn, The semantics of a simple
language for parallel programming, 1974).
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from collectives.algorithms import Algorithm
from collectives.schedule import Block, Recv, ScheduleError, Send, Step
from collectives.well_formed import checked_steps, most_steps


@dataclass(frozen=True)
class Proof:
    """What a proved schedule costs, rank by rank: its steps, and the blocks that it sends and receives."""

    steps: tuple[int, ...]
    sent: tuple[tuple[Block, ...], ...]
    received: tuple[tuple[Block, ...], ...]


def verify(algorithm: Algorithm, world_size: int) -> Proof:
    """The proof that ``algorithm`` keeps its collective's promise on ``world_size`` ranks.

    Unless it declares that it is for operators that commute, the operands must also stand in rank order.
    Raises ScheduleError: a counterexample with rank, step and block. Takes time in proportion to messages.
    """
    if world_size < 1:
        raise ValueError(f"a world of {world_size} ranks: give 1 or more")
    walk = _Walk(algorithm, world_size)
    walk.run()
    for rank in walk.ranks:
        walk.check_promise(rank)
    return Proof(
        tuple(rank.number for rank in walk.ranks),
        tuple(tuple(rank.sent) for rank in walk.ranks),
        tuple(tuple(rank.received) for rank in walk.ranks),
    )


class _Value(NamedTuple):
    """Whose contributions a block holds, a bit for each rank, and whether they stand in rank order."""

    ranks: int
    first: int
    last: int
    in_order: bool

    def then(self, right: "_Value") -> "_Value":
        in_order = self.in_order and right.in_order and self.last < right.first
        return _Value(self.ranks | right.ranks, self.first, right.last, in_order)


@dataclass
class _Rank:
    """A rank in the middle of its schedule."""

    rank: int
    steps: Iterator[Step]
    blocks: dict[Block, _Value]
    step: Step = ()
    number: int = 0  # of steps that are over
    unmatched: int = 0
    arrived: dict[int, tuple[_Value, ...]] = field(default_factory=dict)
    sent: list[Block] = field(default_factory=list)
    received: list[Block] = field(default_factory=list)


class _Posted(NamedTuple):
    rank: _Rank
    place: int  # in the rank's step
    operation: Send | Recv
    values: tuple[_Value, ...]


class _Walk:
    def __init__(self, algorithm: Algorithm, world_size: int) -> None:
        self.algorithm = algorithm
        self.world_size = world_size
        contributors = algorithm.collective.contributors(world_size)
        self.needed = {block: sum(1 << rank for rank in ranks) for block, ranks in contributors.items()}
        self.limit = most_steps(world_size, len(contributors))
        self.ranks = [self._start(rank) for rank in range(world_size)]
        # By (sender, receiver): what has been posted and has not met its other end. One of the two is empty.
        self.sends: dict[tuple[int, int], deque[_Posted]] = defaultdict(deque)
        self.recvs: dict[tuple[int, int], deque[_Posted]] = defaultdict(deque)

    def _start(self, rank: int) -> _Rank:
        own = _Value(1 << rank, rank, rank, True)
        blocks = self.algorithm.collective.starts_with(rank, self.world_size)
        steps = checked_steps(self.algorithm, rank, self.world_size, self.limit)
        return _Rank(rank, steps, dict.fromkeys(blocks, own))

    def run(self) -> None:
        ready = deque(self.ranks)
        while ready:
            rank = ready.popleft()
            step = next(rank.steps, None)
            if step is None:
                continue
            rank.step, rank.arrived, rank.unmatched = step, {}, len(step)
            met = [partner for place in range(len(step)) for partner in self._post(rank, place)]
            for over in dict.fromkeys((rank.rank, *met)):
                if self.ranks[over].unmatched == 0:
                    self._land(self.ranks[over])
                    ready.append(self.ranks[over])
        self._check_all_met()

    def _post(self, rank: _Rank, place: int) -> Iterator[int]:
        """Post one operation; yields the ranks whose operations have met."""
        operation = rank.step[place]
        peer = operation.peer
        if isinstance(operation, Send):
            values = tuple(self._held(rank, block, "sends") for block in operation.blocks)
            pair = rank.rank, peer
            self.sends[pair].append(_Posted(rank, place, operation, values))
        else:
            pair = peer, rank.rank
            self.recvs[pair].append(_Posted(rank, place, operation, ()))
        if self.sends[pair] and self.recvs[pair]:
            send, recv = self.sends[pair].popleft(), self.recvs[pair].popleft()
            if send.operation.blocks != recv.operation.blocks:
                raise self._error(
                    recv.rank,
                    f"waits for {_named(recv.operation.blocks)} from rank {send.rank.rank}, "
                    f"which sends {_named(send.operation.blocks)}",
                )
            recv.rank.arrived[recv.place] = send.values
            for end in (send, recv):
                end.rank.unmatched -= 1
                yield end.rank.rank

    def _land(self, rank: _Rank) -> None:
        """The step is over: its receives take effect, in the order listed."""
        for place, operation in enumerate(rank.step):
            if isinstance(operation, Send):
                rank.sent.extend(operation.blocks)
                continue
            rank.received.extend(operation.blocks)
            for block, incoming in zip(operation.blocks, rank.arrived[place], strict=True):
                if operation.combine is None:
                    rank.blocks[block] = incoming
                    continue
                own = self._held(rank, block, "combines into")
                if own.ranks & incoming.ranks:
                    twice = _members(own.ranks & incoming.ranks)
                    raise self._error(rank, f"adds the contribution of rank {twice} to block {block} twice")
                before = operation.combine == "before"
                rank.blocks[block] = incoming.then(own) if before else own.then(incoming)
        rank.number += 1

    def _check_all_met(self) -> None:
        waits = [
            f"rank {posted.rank.rank} waits in step {posted.rank.number} {verb} rank {posted.operation.peer} "
            f"{then} {_named(posted.operation.blocks)}"
            for queues, verb, then in ((self.recvs, "for", "to send"), (self.sends, "for", "to receive"))
            for queue in queues.values()
            for posted in queue
        ]
        if waits:
            more = f", and {len(waits) - 4} more" if len(waits) > 4 else ""
            raise ScheduleError(f"{self._name()}: {'; '.join(waits[:4])}{more}: nobody can go on")

    def check_promise(self, rank: _Rank) -> None:
        for block in self.algorithm.collective.ends_with(rank.rank, self.world_size):
            value = rank.blocks.get(block, _Value(0, 0, 0, True))
            if block not in self.needed:
                raise ScheduleError(f"{self._name()}: block {block} is promised, and no rank starts with it")
            needed = self.needed[block]
            fault = ""
            if value.ranks != needed:
                fault = f"without the contribution of rank {_members(needed & ~value.ranks)}"
            elif not value.in_order and not self.algorithm.commutative_only:
                fault = "with its operands out of rank order"
            if fault:
                raise ScheduleError(f"{self._name()}: rank {rank.rank} ends with block {block} {fault}")

    def _held(self, rank: _Rank, block: Block, verb: str) -> _Value:
        if block not in rank.blocks:
            raise self._error(rank, f"{verb} block {block}, which it does not hold")
        return rank.blocks[block]

    def _name(self) -> str:
        return f"{self.algorithm} on {self.world_size} ranks"

    def _error(self, rank: _Rank, fault: str) -> ScheduleError:
        return ScheduleError(f"{self._name()}, step {rank.number}: rank {rank.rank} {fault}")


def _named(blocks: tuple[Block, ...]) -> str:
    return f"block{'s' * (len(blocks) != 1)} {', '.join(map(str, blocks))}"


def _members(ranks: int) -> str:
    return ", ".join(str(rank) for rank in range(ranks.bit_length()) if ranks >> rank & 1)
