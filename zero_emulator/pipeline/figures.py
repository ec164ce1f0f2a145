"""What an order costs a stage beside time: the runs that reduce gradients, the activations it holds."""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from zero_emulator.pipeline.actions import Backward, Forward, Order

Run = tuple[int, tuple[int, ...]]
"""A chunk, and micro-batches that it runs backward on."""


def runs(order: Order) -> tuple[Run, ...]:
    """The backwards in turn, those that follow one another on one chunk as one run.

    What else is done between them does not matter. Under ZeRO-2 a stage adds up the gradients of a run and
    reduces them once, so it reduces as often as it has runs.
    """
    backwards = (action for action in order if isinstance(action, Backward))
    return tuple(
        (chunk, tuple(action.micro_batch for action in run))
        for chunk, run in groupby(backwards, key=lambda action: action.chunk)
    )


def most_runs(orders: Iterable[Order]) -> int:
    """The most runs that a chunk has on any of the stages: so often is its gradient reduced."""
    return max(Counter(chunk for order in orders for chunk, _ in runs(order)).values(), default=0)


def most_held(order: Order) -> int:
    """The most forwards at any time whose backward is still to come: so many activations are held."""
    held = most = 0
    for action in order:
        held += isinstance(action, Forward) - isinstance(action, Backward)
        most = max(most, held)
    return most
