"""A plan in numbers: which elements of which buffer each step sends, receives and combines.

``bind`` gives a plan its offsets, once for each set of sizes. Pipelining is no part of an algorithm: a
block is cut into chunks, and each chunk is walked by the same plan in a lane of its own, so a chunk that
has arrived moves on while the next is on its way.
"""

from collections.abc import Mapping
from typing import NamedTuple

from collectives.algorithms import Algorithm, check_limit
from collectives.blocks import bounds, even_cut
from collectives.plan import INPUT, OUTPUT, Move, Plan, Region, Round, make_plan
from collectives.promises import Blocks, Sizes
from collectives.schedule import Block

SCRATCH = 0
"""A lane's slots lie one after the other in one scratch buffer."""


class Span(NamedTuple):
    """Elements ``start`` to ``stop`` of a buffer: its number indexes (scratch, output, input)."""

    buffer: int
    start: int
    stop: int


class BoundMove(NamedTuple):
    """``target = left + right``, or a plain copy where there is no right operand."""

    target: Span
    left: Span
    right: Span | None


class BoundRound(NamedTuple):
    """A round in numbers. Messages without bytes are left out, at both ends alike, but for signals."""

    pack: tuple[BoundMove, ...]
    sends: tuple[tuple[int, int, int, int], ...]  # (peer, buffer, first byte, last byte + 1)
    recvs: tuple[tuple[int, int, int, int], ...]
    copies: tuple[BoundMove, ...]
    effects: tuple[BoundMove, ...]


class Binding(NamedTuple):
    """A plan for these sizes: rounds for each lane, and how many elements the buffers must have."""

    lanes: tuple[tuple[BoundRound, ...], ...]
    input_size: int
    output_size: int
    scratch_size: int


def _plan(algorithm: Algorithm, rank: int, world_size: int, in_place: bool, in_chunks: bool) -> Plan:
    starts = algorithm.promise.starts_with(rank, world_size)
    ends = algorithm.promise.ends_with(rank, world_size)
    if in_place:
        starts, ends = (), max(starts, ends, key=len)
    return make_plan(algorithm.steps(rank, world_size), starts, ends, in_chunks=in_chunks)


def bind(
    algorithm: Algorithm, rank: int, sizes: Sizes, itemsize: int, in_place: bool, num_chunks: int
) -> Binding:
    """The binding of one rank's plan to blocks of ``sizes`` elements of ``itemsize`` bytes.

    ``sizes``: as of ``Collective.block_sizes``. ValueError if the algorithm is not for so many ranks, or
    moves a block whose size is not known.
    """
    check_limit(algorithm, len(sizes))
    plan = _plan(algorithm, rank, len(sizes), in_place, num_chunks > 1)
    size_of = _sizes(algorithm, rank, sizes, plan)
    chunks_of = {block: bounds(even_cut(size, num_chunks)) for block, size in size_of.items()}
    lanes = []
    scratch_size = 0
    for lane in range(num_chunks):
        chunk_of = {block: chunks[lane].stop - chunks[lane].start for block, chunks in chunks_of.items()}
        slots = []
        for held in plan.slots:
            slots.append(scratch_size)
            scratch_size += max(_total(chunk_of, blocks) for blocks in held)
        starts_at = {
            buffer: {block: start + chunks_of[block][lane].start for block, start in starts.items()}
            for buffer, starts in (
                (INPUT, _starts(size_of, plan.input_blocks)),
                (OUTPUT, _starts(size_of, plan.output_blocks)),
            )
        }
        binder = _Binder(chunk_of, starts_at, slots, itemsize, algorithm.collective.empty)
        lanes.append(tuple(binder.round(one) for one in plan.rounds))
    return Binding(
        tuple(lanes), _total(size_of, plan.input_blocks), _total(size_of, plan.output_blocks), scratch_size
    )


def writes_output(binding: Binding) -> bool:
    """Whether anything comes to lie in the output: a broadcast, for one, may only read that of its root."""
    rounds = [one for lane in binding.lanes for one in lane]
    landing = (buffer for one in rounds for _, buffer, _, _ in one.recvs)
    moved = (move.target.buffer for one in rounds for move in (*one.pack, *one.copies, *one.effects))
    return OUTPUT in {*landing, *moved}


def _sizes(algorithm: Algorithm, rank: int, sizes: Sizes, plan: Plan) -> dict[Block, int]:
    """The elements of each block that the plan has to do with."""
    size_of = algorithm.block_sizes(sizes)
    moved = (
        block for one in plan.rounds for _, region in (*one.sends, *one.recvs) for block in region.blocks
    )
    found = {}
    for block in (*plan.input_blocks, *plan.output_blocks, *moved):
        if block not in size_of:
            raise ValueError(
                f"{algorithm} names block {block!r}: the engine runs blocks 0 to {len(sizes) - 1}, one a rank"
            )
        size = size_of[block]
        if size is None:
            raise ValueError(
                f"{algorithm} moves block {block!r} through rank {rank}, where its size is None: give it"
            )
        found[block] = size
    return found


def _total(size_of: Mapping[Block, int], blocks: Blocks) -> int:
    return sum(size_of[block] for block in blocks)


def _starts(size_of: Mapping[Block, int], blocks: Blocks) -> dict[Block, int]:
    places = bounds([size_of[block] for block in blocks])
    return {block: place.start for block, place in zip(blocks, places, strict=True)}


class _Binder(NamedTuple):
    """Turns one lane's regions into spans."""

    chunk_of: Mapping[Block, int]
    starts_at: Mapping[int, Mapping[Block, int]]
    slots: list[int]
    itemsize: int
    keeps_empty: bool

    def round(self, one: Round) -> BoundRound:
        return BoundRound(
            tuple(map(self.move, one.pack)),
            self.messages(one.sends),
            self.messages(one.recvs),
            tuple(map(self.move, one.copies)),
            tuple(map(self.move, one.effects)),
        )

    def span(self, region: Region) -> Span:
        if region.buffer in self.starts_at:
            buffer = region.buffer
            start = self.starts_at[buffer][region.blocks[0]]
        else:
            buffer = SCRATCH
            start = self.slots[region.buffer] + _total(self.chunk_of, region.skip)
        return Span(buffer, start, start + _total(self.chunk_of, region.blocks))

    def messages(self, messages: tuple[tuple[int, Region], ...]) -> tuple[tuple[int, int, int, int], ...]:
        spans = [(peer, self.span(region)) for peer, region in messages]
        return tuple(
            (peer, span.buffer, span.start * self.itemsize, span.stop * self.itemsize)
            for peer, span in spans
            if span.stop > span.start or self.keeps_empty
        )

    def move(self, move: Move) -> BoundMove:
        target, incoming = self.span(move.target), self.span(move.incoming)
        if move.own is None:
            return BoundMove(target, incoming, None)
        own = self.span(move.own)
        left, right = (incoming, own) if move.combine == "before" else (own, incoming)
        return BoundMove(target, left, right)
