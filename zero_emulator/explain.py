"""Why ranks send what they send: from the claim to the counted bytes, one step for each effect.

A pure function of a run record, by the closed forms of theory alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import sub
from typing import NamedTuple

from collectives.ledger import Kind
from zero_emulator.explain_overhead import Overhead, overheads, reasons
from zero_emulator.explain_remainders import Remainder, remainders
from zero_emulator.explain_training import Switched, switches
from zero_emulator.recorded import Recorded

Bytes = tuple[int, ...]
"""One number a rank."""


class Step(NamedTuple):
    """One effect on what each rank sends, and why. The first one is the claim itself."""

    kind: Kind
    name: str
    why: str
    added: Bytes
    """In the iteration that is explained; below 0 what is not sent."""
    whole_run: Bytes
    """In all iterations together."""


@dataclass(frozen=True)
class Explanation:
    """Steps that add up to what every rank counted, in one iteration and in all, unless something remains."""

    record: Recorded
    iteration: int
    steps: tuple[Step, ...]
    remainders: tuple[Remainder, ...]


def explain(record: Recorded, iteration: int) -> Explanation:
    """Every effect on the bytes sent in this iteration, and what nothing explains in any."""
    besides = overheads(record)
    steps = (*_training_steps(record, iteration), *_overhead_steps(record, besides, iteration))
    left = tuple(remainders(record, besides)) or tuple(_not_in_steps(record, iteration, steps))
    return Explanation(record, iteration, steps, left)


def _not_in_steps(record: Recorded, iteration: int, steps: Sequence[Step]) -> Iterator[Remainder]:
    """Where the steps as they are shown do not add up to what was counted."""
    for rank, totals in enumerate(record.totals):
        here = record.iterations[iteration - 1].traffic[rank]
        counted = sum(here.sent.values()) + here.control_sent + here.audit_sent
        explained = sum(step.added[rank] for step in steps)
        if counted != explained:
            yield Remainder(iteration, rank, "sent, by the steps above", counted, explained)
        counted = totals.training + totals.control + totals.audit
        explained = sum(step.whole_run[rank] for step in steps)
        if counted != explained:
            yield Remainder(None, rank, "sent, by the steps above", counted, explained)


def _training_steps(record: Recorded, iteration: int) -> Iterator[Step]:
    """Iterations differ in training only by whether their update was skipped."""
    cases = [switches(record, skipped=skipped) for skipped in (False, True)]
    added = [_added(case, record.world_size) for case in cases]
    here = cases[record.iterations[iteration - 1].skipped]
    for place, switch in enumerate(here):
        sent = [added[one.skipped][place] for one in record.iterations]
        yield _step("training", switch.name, switch.why, sent, iteration)


def _overhead_steps(
    record: Recorded, besides: Sequence[Sequence[Overhead]], iteration: int
) -> Iterator[Step]:
    why = reasons(record, iteration)
    for kind, purpose in besides[0][0]:
        sent = [tuple(one[kind, purpose].sent for one in ranks) for ranks in besides]
        yield _step(kind, purpose, why[purpose], sent, iteration)


def _added(training: Sequence[Switched], world_size: int) -> list[Bytes]:
    """What each switch adds on each rank to what was sent before it."""
    sent = [(0,) * world_size]
    sent += [tuple(switch.situation.sent(rank) for rank in range(world_size)) for switch in training]
    return [tuple(map(sub, after, before)) for before, after in pairwise(sent)]


def _step(kind: Kind, name: str, why: str, sent: Sequence[Bytes], iteration: int) -> Step:
    """The step that adds these bytes, iteration by iteration and rank by rank."""
    return Step(kind, name, why, sent[iteration - 1], tuple(map(sum, zip(*sent, strict=True))))
