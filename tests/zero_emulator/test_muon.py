"""Muon: against the definition by singular values, cut into parts, and under every strategy."""

from math import sqrt
from typing import Any

import numpy as np
import pytest

from zero_emulator.data import Dataset
from zero_emulator.expected_traffic import expected_traffic
from zero_emulator.judge import faults
from zero_emulator.layout import Array, FlatLayout
from zero_emulator.optimizers import AdamW, Muon, MuonMatrix
from zero_emulator.optimizers.muon import NEWTON_SCHULZ, orthogonalize
from zero_emulator.precision import find_precision
from zero_emulator.theory import NOTHING, PLAIN, UPDATES, Flow, muon_fetches, persistent_bytes
from zero_emulator.trainer import Trainer

SHAPES = [(5, 8), (8, 5), (6, 6), (1, 4), (4, 1), (1, 1)]
MATRIX = MuonMatrix((6, 4), lr=0.1, momentum=0.9, weight_decay=0.02)


def by_singular_values(matrix: Array) -> Array:
    """The polynomial applied five times to each singular value."""
    left, values, right = np.linalg.svd(matrix / np.linalg.norm(matrix), full_matrices=False)
    a, b, c = NEWTON_SCHULZ
    for _ in range(5):
        values = a * values + b * values**3 + c * values**5
    return np.asarray((left * values) @ right)


@pytest.mark.parametrize("shape", SHAPES)
def test_orthogonalizing_moves_the_singular_values_and_nothing_else(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(3).standard_normal(shape)
    expected = by_singular_values(matrix)
    orthogonalize(matrix)
    np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_singular_values_end_near_one(dtype: str) -> None:
    matrix = np.random.default_rng(3).standard_normal((40, 30)).astype(dtype)
    orthogonalize(matrix)
    values = np.linalg.svd(matrix, compute_uv=False)
    assert 0.6 < values.min() < values.max() < 1.2


def test_a_matrix_of_zeros_stays_one() -> None:
    matrix = np.zeros((3, 2))
    orthogonalize(matrix)
    assert not matrix.any()


def test_an_update_follows_the_definition() -> None:
    rng = np.random.default_rng(4)
    params, momentum = rng.standard_normal(24), np.zeros(24)
    expected, state = params.copy(), MATRIX.new_state(24, np.float64)
    for iteration in range(1, 6):
        grads = rng.standard_normal(24)
        MATRIX.update(params, grads, state, iteration, scale=0.5)
        momentum = 0.9 * momentum + 0.1 * 0.5 * grads
        ahead = 0.1 * 0.5 * grads + 0.9 * momentum
        direction = by_singular_values(ahead.reshape(6, 4)).reshape(-1)
        expected = (1 - 0.1 * 0.02) * expected - 0.1 * 0.2 * sqrt(6) * direction
        np.testing.assert_allclose(params, expected, rtol=0, atol=1e-12)


def test_parts_of_a_matrix_that_gather_its_update_make_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    params, grads = rng.standard_normal(24), rng.standard_normal(24)
    whole, state = params.copy(), MATRIX.new_state(24, np.float64)
    MATRIX.update(whole, grads, state, 1)
    parts = [slice(0, 7), slice(7, 8), slice(8, 24)]
    corrected = np.empty(24)
    for part in parts:
        MATRIX.correct(grads[part], MATRIX.new_state(params[part].size, np.float64), 1.0, out=corrected[part])
    for part in parts:
        MATRIX.apply(params[part], corrected.copy(), part)
    assert params.tobytes() == whole.tobytes()


def test_what_is_no_matrix_is_left_to_adamw_and_padding_with_it() -> None:
    shapes = ("weight", (2, 3)), ("bias", (3,)), ("second", (3, 1))
    rules = Muon(0.1, weight_decay=0.2).rules(FlatLayout(shapes, padding=(1, 0, 2)))
    rest = AdamW(0.1, weight_decay=0.2)
    assert [(place.start, place.stop) for place, _ in rules] == [(0, 6), (6, 10), (10, 13), (13, 15)]
    assert [rule for _, rule in rules[1::2]] == [rest, rest]
    assert [rule.shape for _, rule in rules[::2] if isinstance(rule, MuonMatrix)] == [(2, 3), (3, 1)]


def test_those_who_share_a_matrix_fetch_the_rest_of_it_from_each_other() -> None:
    shares = (0, 3, 2, 1)  # of a matrix of 6 in the blocks of four ranks
    assert [muon_fetches([shares], rank, 4) for rank in range(4)] == [
        NOTHING, Flow(4 * 4, 3 * 4), Flow(5 * 4, 4 * 4), Flow(3 * 4, 5 * 4),
    ]  # fmt: skip
    assert muon_fetches([(0, 6, 0, 0)], 1, 4) == NOTHING


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize(
    ("strategy", "formula"),
    [
        ("ddp", lambda n: 12),
        ("zero1", lambda n: 4 + 8 / n),
        ("zero2", lambda n: 2 + 10 / n),
        ("zero3", lambda n: 12 / n),
    ],
)
def test_a_matrix_keeps_12_bytes_a_parameter(strategy: str, formula: Any, world_size: int) -> None:
    matrix, rest = (8,) * world_size, (3,) * world_size
    kept = persistent_bytes(
        strategy, [matrix, rest], 0, find_precision("bf16"), UPDATES["muon"].moments, matrices=[matrix]
    )
    others = persistent_bytes(strategy, [rest], 0, find_precision("bf16"), UPDATES["adam"].moments)
    assert sum(kept.values()) - sum(others.values()) == pytest.approx(formula(world_size) * 8 * world_size)


@pytest.mark.on_threads
@pytest.mark.parametrize(
    ("world_size", "precision", "padding"),
    [
        (1, "fp16", "none"),
        (3, "fp64", "none"),
        (3, "bf16", "rows"),
        (3, "fp16", "rows"),
        (3, "bf16+fp32grad", "none"),
    ],
)
def test_every_strategy_passes_its_audits_with_the_same_bits(
    train: Any, toy: Dataset, precision: str, padding: str
) -> None:
    digests = []
    for strategy in PLAIN:
        outcome = train(
            strategy, optimizer="muon", dtype=None, precision=precision, padding=padding, clip=0.5
        )
        partition = outcome.config.partition(toy, len(outcome.reports))
        assert faults(outcome.config, partition, outcome) == []
        digests.append(outcome.digests)
    assert digests == digests[:1] * len(PLAIN)


@pytest.mark.parametrize("world_size", [3])
def test_a_cut_between_layers_leaves_nothing_to_fetch(train: Any, toy: Dataset) -> None:
    adam, muon = (train("zero2", optimizer=name, cut="layers") for name in ("adam", "muon"))
    partition = muon.config.partition(toy, 3)
    assert faults(muon.config, partition, muon) == []
    for rank in range(3):
        traffic = expected_traffic(muon.config, partition, rank)
        assert traffic == expected_traffic(adam.config, partition, rank)


@pytest.mark.parametrize("world_size", [3])
def test_nobody_fetches_for_an_update_that_is_skipped(train: Any, toy: Dataset, monkeypatch: Any) -> None:
    loss = Trainer._loss

    def overflowing(self: Trainer, *arguments: Any) -> Any:
        share, grad = loss(self, *arguments)
        if self.iteration == 2 and self.comm.rank == 1:
            grad.fill(np.inf)
        return share, grad

    monkeypatch.setattr(Trainer, "_loss", overflowing)
    outcome = train("zero3", optimizer="muon", dtype=None, precision="bf16")
    assert [report.skipped for report in outcome.reports] == [[2]] * 3
    assert faults(outcome.config, outcome.config.partition(toy, 3), outcome) == []
