"""A schedule with places: for one rank, which bytes each step sends, receives and combines.

Still no array: a plan is made once for an algorithm and a rank, and serves every size and dtype. A block lies
in the caller's INPUT, which is only read, in the caller's OUTPUT, or in a scratch slot. A slot is free again
once the blocks in it have been used for the last time: a ring reduce-scatter of any world size needs two.

The rules that keep messages in flight safe are all decided here:

* a block that is combined for the first time lands where it will live and is combined with the input there,
  so nothing is copied first and the input is never written;
* a receive that would combine with a block in place, or replace one that is being sent, lands in a slot and
  takes effect when the step is over;
* a message of several blocks that do not lie side by side is packed into a slot.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from collectives.promises import Blocks
from collectives.schedule import Block, Recv, Schedule, Send, Side, Step

INPUT, OUTPUT = -1, -2
"""The caller's buffers. Scratch slots count from 0."""


class Region(NamedTuple):
    """The bytes of ``blocks``, side by side in ``buffer``; in a slot they follow the bytes of ``skip``."""

    buffer: int
    blocks: Blocks
    skip: Blocks = ()


class Move(NamedTuple):
    """``target = incoming``; or ``incoming + own`` with combine "before", ``own + incoming`` with "after"."""

    target: Region
    incoming: Region
    own: Region | None = None
    combine: Side | None = None


class Round(NamedTuple):
    """A step with places: pack, post the messages, make the copies meanwhile, wait, let it take effect."""

    pack: tuple[Move, ...] = ()
    sends: tuple[tuple[int, Region], ...] = ()
    recvs: tuple[tuple[int, Region], ...] = ()
    copies: tuple[Move, ...] = ()
    effects: tuple[Move, ...] = ()


class Plan(NamedTuple):
    """One rank's rounds, what its buffers hold in memory order, and what each slot must have room for."""

    rounds: tuple[Round, ...]
    input_blocks: Blocks
    output_blocks: Blocks
    slots: tuple[tuple[Blocks, ...], ...]


def make_plan(
    schedule: Schedule, input_blocks: Blocks, output_blocks: Blocks, *, in_chunks: bool = False
) -> Plan:
    """The plan of a proved schedule whose buffers hold these blocks, in memory order.

    Every block starts in the input, or, if that is empty (in place), in the output. What the collective
    promises must have its place in the output. Blocks that are cut into chunks do not lie side by side.
    """
    return _Planner(tuple(schedule), input_blocks, output_blocks, in_chunks).plan()


class _Planner:
    def __init__(
        self, steps: Sequence[Step], input_blocks: Blocks, output_blocks: Blocks, in_chunks: bool
    ) -> None:
        self.steps, self.in_chunks = steps, in_chunks
        self.input_blocks, self.output_blocks = input_blocks, output_blocks
        start, blocks = (INPUT, input_blocks) if input_blocks else (OUTPUT, output_blocks)
        self.at = {block: Region(start, (block,)) for block in blocks}
        self.place_in = {
            INPUT: {block: place for place, block in enumerate(input_blocks)},
            OUTPUT: {block: place for place, block in enumerate(output_blocks)},
        }
        uses = ((n, block) for n, step in enumerate(steps) for op in step for block in op.blocks)
        self.last_use = {block: number for number, block in uses}
        self.slots: list[list[Blocks]] = []
        self.tenants: dict[int, set[Block]] = {}  # by slot in use; a slot without tenants is lent for a step

    def plan(self) -> Plan:
        copies = self._never_received()
        rounds = [self._round(number, step) for number, step in enumerate(self.steps)]
        if copies:
            rounds[:1] = [(rounds[0] if rounds else Round())._replace(copies=copies)]
        slots = tuple(tuple(dict.fromkeys(held)) for held in self.slots)
        return Plan(tuple(rounds), self.input_blocks, self.output_blocks, slots)

    def _never_received(self) -> tuple[Move, ...]:
        """Blocks that go from input to output unchanged: copied while the first step is in flight."""
        recvs = (op for step in self.steps for op in step if isinstance(op, Recv))
        received = {block for op in recvs for block in op.blocks}
        return tuple(
            Move(Region(OUTPUT, (block,)), Region(INPUT, (block,)))
            for block in self.output_blocks
            if block in self.place_in[INPUT] and block not in received
        )

    def _round(self, number: int, step: Step) -> Round:
        sending = {block for op in step if isinstance(op, Send) for block in op.blocks}
        pack: list[Move] = []
        sends, recvs = [], []
        for operation in step:
            if isinstance(operation, Send):
                region = self._joined([self.at[block] for block in operation.blocks])
                if region is None:
                    region = self._slot(operation.blocks)
                    parts = _parts(region)
                    pack += (Move(part, self.at[b]) for b, part in zip(operation.blocks, parts, strict=True))
                sends.append((operation.peer, region))
        effects: list[Move] = []
        written: set[Block] = set()
        for operation in step:
            if isinstance(operation, Recv):
                recvs.append((operation.peer, self._receive(operation, sending, written, effects)))
        for slot, tenants in list(self.tenants.items()):
            tenants -= {block for block in tenants if self.last_use[block] <= number}
            if not tenants:
                del self.tenants[slot]
        return Round(tuple(pack), tuple(sends), tuple(recvs), (), tuple(effects))

    def _receive(
        self, operation: Recv, sending: set[Block], written: set[Block], effects: list[Move]
    ) -> Region:
        """Where a message lands; what it does when the step is over is added to ``effects``."""
        homes = [self._home(block) for block in operation.blocks]
        busy = any(
            block in written or (self.at.get(block) == home and (operation.combine or block in sending))
            for block, home in zip(operation.blocks, homes, strict=True)
        )
        region = None if busy else self._joined(homes)
        if region is None:
            region = self._slot(operation.blocks)
        for block, home, part in zip(operation.blocks, homes, _parts(region), strict=True):
            if home is None:  # it stays where it lands
                home = part
                self.tenants[region.buffer].add(block)
            if operation.combine:
                effects.append(Move(home, part, self.at[block], operation.combine))
            elif part != home:
                effects.append(Move(home, part))
            self.at[block] = home
            written.add(block)
        return region

    def _home(self, block: Block) -> Region | None:
        """Where a block lives once it is written: its place in the output, the slot it is in, or none yet."""
        if block in self.place_in[OUTPUT]:
            return Region(OUTPUT, (block,))
        here = self.at.get(block)
        return here if here and here.buffer >= 0 and block in self.tenants.get(here.buffer, ()) else None

    def _joined(self, regions: Sequence[Region | None]) -> Region | None:
        """One region for blocks that lie side by side in this order, or None."""
        first = regions[0] if regions else None
        if first is None or len(regions) == 1:
            return first
        for left, right in pairwise(regions):
            if left is None or right is None or not self._side_by_side(left, right):
                return None
        blocks = tuple(block for region in regions if region for block in region.blocks)
        return Region(first.buffer, blocks, first.skip)

    def _side_by_side(self, left: Region, right: Region) -> bool:
        if left.buffer != right.buffer:
            return False
        if left.buffer >= 0:
            return right.skip == left.skip + left.blocks
        places = self.place_in[left.buffer]
        return not self.in_chunks and places[right.blocks[0]] == places[left.blocks[0]] + 1

    def _slot(self, blocks: Blocks) -> Region:
        slot = next((slot for slot in range(len(self.slots)) if slot not in self.tenants), len(self.slots))
        if slot == len(self.slots):
            self.slots.append([])
        self.slots[slot].append(blocks)
        self.tenants[slot] = set()
        return Region(slot, blocks)


def _parts(region: Region) -> list[Region]:
    """The region of each block of a message."""
    if region.buffer < 0 or len(region.blocks) == 1:
        return [Region(region.buffer, (block,), region.skip) for block in region.blocks]
    return [
        Region(region.buffer, (block,), region.skip + region.blocks[:k])
        for k, block in enumerate(region.blocks)
    ]
