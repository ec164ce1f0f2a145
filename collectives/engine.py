"""Executes a plan: NumPy buffers over any transport, chunk by chunk, many collectives in flight.

``bind`` gives a plan its byte offsets, once for each set of sizes. ``walk`` is a collective in flight: a
suspended generator that yields what it waits for and is resumed when that has landed. Pipelining is no part
of an algorithm: a block is cut into chunks, and each chunk is walked by the same plan in a lane of its own,
so a chunk that has arrived moves on while the next is on its way.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from collectives.algorithms import Algorithm, check_limit
from collectives.blocks import bounds, even_cut
from collectives.ledger import Call, Origin
from collectives.operators import Operator
from collectives.plan import INPUT, OUTPUT, Move, Plan, Region, Round, make_plan
from collectives.promises import Blocks, Sizes
from collectives.schedule import Block
from collectives.transports.base import Pending, Transport

Array = npt.NDArray[Any]

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


Action = Callable[[], object]


class PlacedRound(NamedTuple):
    """A round whose bytes are memory: what to do before, the messages, what to do meanwhile and after."""

    pack: list[Action]
    sends: list[tuple[int, Array]]
    recvs: list[tuple[int, Array]]
    copies: list[Action]
    effects: list[Action]


def place(
    rounds: tuple[BoundRound, ...], scratch: Array, output: Array, input: Array, operator: Operator | None
) -> tuple[PlacedRound, ...]:
    """One lane's rounds in the memory of these flat arrays of one dtype."""
    typed = scratch, output, input  # as spans index them
    wire = scratch.view(np.uint8), output.view(np.uint8), input.view(np.uint8)
    return tuple(
        PlacedRound(
            [_action(move, typed, operator) for move in pack],
            [(peer, wire[buffer][start:stop]) for peer, buffer, start, stop in sends],
            [(peer, wire[buffer][start:stop]) for peer, buffer, start, stop in recvs],
            [_action(move, typed, operator) for move in copies],
            [_action(move, typed, operator) for move in effects],
        )
        for pack, sends, recvs, copies, effects in rounds
    )


def staged(lanes: tuple[tuple[PlacedRound, ...], ...], copy: Action) -> tuple[tuple[PlacedRound, ...], ...]:
    """The same lanes with ``copy`` before anything else: the first lane is the first to start."""
    (first, *others), *more = lanes
    return ((first._replace(pack=[copy, *first.pack]), *others), *more)


def _action(move: BoundMove, typed: tuple[Array, Array, Array], operator: Operator | None) -> Action:
    (into, start, stop), (of, first, last), right = move
    target, left = typed[into][start:stop], typed[of][first:last]
    if right is None:
        return partial(np.copyto, target, left)
    assert operator is not None, "only a reduction combines"
    return partial(operator.combine, left, typed[right.buffer][right.start : right.stop], out=target)


def walk(
    rounds: tuple[PlacedRound, ...], transport: Transport, tag: int, call: Call, chunk: int
) -> Iterator[tuple[Pending, Origin]]:
    """One lane of a collective in flight: yields what each step waits for; resume it when that has landed."""
    for step, (pack, sends, recvs, copies, effects) in enumerate(rounds):
        for action in pack:
            action()
        origin = Origin(call, step, chunk)
        pending = transport.post(sends, recvs, tag, origin)
        for action in copies:
            action()
        yield pending, origin
        for action in effects:
            action()
