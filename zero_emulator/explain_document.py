"""Explanations as one JSON document."""

from collections.abc import Sequence
from itertools import accumulate
from typing import get_args

from collectives.ledger import Kind
from zero_emulator.documents import Json
from zero_emulator.explain import Bytes, Explanation
from zero_emulator.precision import ITEMSIZE
from zero_emulator.recorded import RankTraffic
from zero_emulator.theory import CLAIMED

EXPLAIN_SCHEMA = "zero-emulator/explain/1"


def explain_document(explanations: Sequence[Explanation], rank: int | None) -> Json:
    """All runs of a record; lists of bytes have one number a rank, or the one of ``rank`` alone."""
    remains = any(explanation.remainders for explanation in explanations)
    return {
        "schema": EXPLAIN_SCHEMA,
        "runs": [_run(explanation, rank) for explanation in explanations],
        "verdict": "fail" if remains else "pass",
    }


def _run(explanation: Explanation, rank: int | None) -> Json:
    record = explanation.record
    chosen = [*range(record.world_size)] if rank is None else [rank]

    def of_chosen(values: Sequence[int]) -> list[int]:
        return [values[one] for one in chosen]

    sums = accumulate((step.added for step in explanation.steps), _add)
    iteration = record.iterations[explanation.iteration - 1]
    totals = {kind: [getattr(one, kind) for one in record.totals] for kind in get_args(Kind)}
    in_iterations = [
        sum(sum(_counted(one.traffic[number]).values()) for one in record.iterations)
        for number in range(record.world_size)
    ]
    outside = [sum(every) - within for *every, within in zip(*totals.values(), in_iterations, strict=True)]
    return {
        "strategy": record.config.strategy,
        "claim": f"{CLAIMED[record.config.strategy].claim}Ψ",
        "world_size": record.world_size,
        "num_params": record.num_params,
        "weight_bytes": ITEMSIZE[record.config.policy.weight],
        "iteration": explanation.iteration,
        "iterations": record.config.iterations,
        "ranks": chosen,
        "steps": [
            {
                "kind": step.kind,
                "name": step.name,
                "why": step.why,
                "bytes": of_chosen(step.added),
                "sum": of_chosen(total),
                "whole_run": of_chosen(step.whole_run),
            }
            for step, total in zip(explanation.steps, sums, strict=True)
        ],
        "counted": {
            kind: of_chosen([_counted(one)[kind] for one in iteration.traffic]) for kind in get_args(Kind)
        },
        "totals": {
            **{kind: of_chosen(every) for kind, every in totals.items()},
            "outside_iterations": of_chosen(outside),
        },
        "remainders": [remainder._asdict() for remainder in explanation.remainders],
    }


def _add(left: Bytes, right: Bytes) -> Bytes:
    return tuple(one + other for one, other in zip(left, right, strict=True))


def _counted(traffic: RankTraffic) -> dict[str, int]:
    """Bytes that a rank counted as sent in an iteration, by kind."""
    return {
        "training": sum(traffic.sent.values()),
        "control": traffic.control_sent,
        "audit": traffic.audit_sent,
    }
