"""The ledger of a described model as one JSON document."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from zero_emulator.documents import Json
from zero_emulator.fewest_ranks import fewest_ranks
from zero_emulator.held_bytes import Training, kept_formula, whole_bytes
from zero_emulator.memory_ledger import RankBytes, Row, ledger_rows
from zero_emulator.parallel_degrees import ParallelDegrees
from zero_emulator.stages import Stage
from zero_emulator.theory import CLAIMED

LEDGER_SCHEMA = "zero-emulator/ledger/2"


@dataclass(frozen=True)
class Described:
    """A model, its stages, how it is trained, and the memory of one device in bytes, if it matters."""

    name: str | None
    """The file that it was read from; None for a bare number of parameters."""
    num_params: int
    num_expert_params: int
    stages: tuple[Stage, ...]
    degrees: ParallelDegrees
    training: Training
    memory: int | None = None


def ledger_document(described: Described) -> Json:
    """Everything that is known, bytes rounded up to whole ones."""
    degrees, training = described.degrees, described.training
    return {
        "schema": LEDGER_SCHEMA,
        "model": {
            "source": described.name,
            "num_params": described.num_params,
            "num_expert_params": described.num_expert_params,
        },
        "ranks": degrees.ranks,
        "tensor_parallel": degrees.tensor,
        "pipeline": degrees.pipeline,
        "expert": degrees.expert,
        "sharding_degree": {"dense": degrees.copies(False), "expert": degrees.copies(True)},
        "precision": training.precision.name,
        "compute": training.precision.compute,
        "optimizer": training.optimizer,
        "micro_batches": training.micro_batches,
        "prefetch": training.prefetch,
        "keep_views": training.keep_views,
        "device_memory": described.memory,
        "rows": [_row(row, described) for row in ledger_rows(described.stages, degrees, training)],
    }


def _row(row: Row, described: Described) -> Json:
    fullest = row.fullest
    matrices = {group.matrix for stage in described.stages for group in stage.groups}
    formulas = (kept_formula(row.strategy, described.training, matrix) for matrix in sorted(matrices)[::-1])
    return {
        "strategy": row.strategy,
        "pipeline_stage": fullest.pipeline_stage,
        "rank_params": ceil(fullest.num_params),
        "bytes_a_parameter": {
            "formulas": list(dict.fromkeys(formulas)),
            "value": float(fullest.persistent / fullest.num_params),
        },
        "persistent": _total(fullest.persistent, whole_bytes(fullest.kept)),
        "with_a_layer": _with_a_layer(row.highest),
        "claim": f"{CLAIMED[row.strategy].claim}Ψ",
        "sent": {"formula": row.sent_formula, "bytes": ceil(fullest.sent)},
        "fits": _fits(row, described),
    }


def _total(size: Fraction, by_kind: dict[str, int]) -> Json:
    return {"total": ceil(size), "by_kind": by_kind}


def _with_a_layer(rank: RankBytes) -> Json | None:
    if rank.with_a_layer is None or rank.passing is None:
        return None
    by_kind = whole_bytes({"persistent": rank.persistent, **rank.passing})
    return {"pipeline_stage": rank.pipeline_stage, **_total(rank.with_a_layer, by_kind)}


def _fits(row: Row, described: Described) -> Json | None:
    """Whether it fits into the device's memory as it is, and on how many ranks it would."""
    memory = described.memory
    if memory is None:
        return None
    asked = (row.strategy, described.stages, described.degrees, described.training, memory)
    kept = {
        "persistent": row.fullest.persistent <= memory,
        "fewest_ranks": fewest_ranks(*asked, with_a_layer=False),
    }
    if row.highest.with_a_layer is None:
        return {**kept, "with_a_layer": None, "fewest_ranks_with_a_layer": None}
    return {
        **kept,
        "with_a_layer": row.highest.with_a_layer <= memory,
        "fewest_ranks_with_a_layer": fewest_ranks(*asked, with_a_layer=True),
    }
