"""The orders of all stages: what a schedule computes, with the messages that this takes."""

from collections.abc import Iterator

from zero_emulator.pipeline.actions import Action, Compute, Forward, Order, Receive, Send, What
from zero_emulator.pipeline.checking import check_orders
from zero_emulator.pipeline.schedules import SCHEDULES


def orders(schedule: str, stages: int, chunks: int, micro_batches: int) -> tuple[Order, ...]:
    """One order a stage, with so many ``chunks`` a stage, checked against each other.

    A Receive stands right before the Forward or Backward that needs it, a Send right after the one that made
    it. ValueError for what the schedule cannot do.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"no schedule is called {schedule!r}: take one of {', '.join(SCHEDULES)}")
    degrees = {"stages": stages, "chunks": chunks, "micro_batches": micro_batches}
    for name, value in degrees.items():
        if value < 1:
            raise ValueError(f"{name} {value}: give 1 or more")
    compute, num_chunks = SCHEDULES[schedule], stages * chunks
    made = tuple(
        tuple(
            action
            for one in compute(stage, stages, chunks, micro_batches)
            for action in _with_messages(one, stages, num_chunks)
        )
        for stage in range(stages)
    )
    check_orders(made, schedule)
    return made


def _with_messages(compute: Compute, stages: int, num_chunks: int) -> Iterator[Action]:
    """The action between the message that it needs and the one that it makes, where there are any."""
    what: What
    what, step = ("activation", 1) if isinstance(compute, Forward) else ("gradient", -1)
    chunk, micro_batch = compute
    source, target = chunk - step, chunk + step
    if stages > 1 and 0 <= source < num_chunks:
        yield Receive(what, chunk, micro_batch, source % stages)
    yield compute
    if stages > 1 and 0 <= target < num_chunks:
        yield Send(what, target, micro_batch, target % stages)
