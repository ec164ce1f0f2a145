"""Executes a plan: NumPy buffers over any transport, chunk by chunk, many collectives in flight.

``place`` puts the offsets of a plan into memory. ``walk`` is a collective in flight: a suspended
generator that yields what it waits for and is resumed when that has landed.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from collectives.ledger import Call, Origin
from collectives.offsets import BoundMove, BoundRound
from collectives.operators import Operator
from collectives.transports.base import Pending, Transport

Array = npt.NDArray[Any]

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
