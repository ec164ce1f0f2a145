"""Bytes and traffic of models that nobody here could run: published figures, and what must always hold."""

from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any, get_args

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from zero_emulator.fewest_ranks import fewest_ranks
from zero_emulator.held_bytes import Training, kept_formula, whole_bytes
from zero_emulator.memory_ledger import ledger_rows
from zero_emulator.nominal import sent_bytes, sent_formula
from zero_emulator.parallel_degrees import ParallelDegrees
from zero_emulator.precision import PRECISIONS, find_precision
from zero_emulator.shapes import Model, ModelLayer, Tensor
from zero_emulator.stages import Group, Stage, stage_of_count, stages_of
from zero_emulator.theory import PLAIN, UPDATES, KeepViews, iteration_traffic

GB = 10**9
BF16 = PRECISIONS["bf16"]


def kept_gb(params: int, ranks: int, precision: str = "bf16", optimizer: str = "adam") -> list[float]:
    degrees = ParallelDegrees(ranks)
    training = Training(PRECISIONS[precision], optimizer)
    rows = ledger_rows([stage_of_count(params, 0, degrees)], degrees, training)
    return [float(row.fullest.persistent / GB) for row in rows]


@pytest.mark.parametrize(
    ("params", "ranks", "precision", "optimizer", "kept"),
    [
        (8 * GB, 4, "bf16", "adam", [128, 56, 44, 32]),
        (8 * GB, 4, "bf16", "adamw", [128, 56, 44, 32]),
        (8 * GB, 4, "bf16", "muon", [96, 48, 36, 24]),
        (8 * GB, 4, "bf16", "sgd", [64, 40, 28, 16]),
        (8 * GB, 4, "bf16-fp32grad", "adam", [144, 72, 48, 36]),
        (8 * GB, 4, "bf16+fp32grad", "adam", [160, 88, 52, 40]),
        (8 * GB, 4, "fp32", "adam", [128, 80, 56, 32]),
        (7 * GB, 1, "bf16", "adam", [112, 112, 112, 112]),
    ],
)
def test_the_published_gigabytes_come_out_to_the_digit(
    params: int, ranks: int, precision: str, optimizer: str, kept: list[float]
) -> None:
    assert kept_gb(params, ranks, precision, optimizer) == kept


def test_the_formulas_are_the_well_known_ones() -> None:
    training = Training(BF16)
    assert [kept_formula(strategy, training, True) for strategy in PLAIN] == [
        "16", "4 + 12/N", "2 + 14/N", "16/N",
    ]  # fmt: skip


@pytest.mark.parametrize("strategy", list(PLAIN))
@pytest.mark.parametrize("precision", list(PRECISIONS))
@pytest.mark.parametrize("keep_views", get_args(KeepViews))
def test_the_ledger_sends_what_a_run_of_equal_blocks_does(
    strategy: str, precision: str, keep_views: KeepViews
) -> None:
    training = Training(find_precision(precision), micro_batches=3, keep_views=keep_views)
    run = iteration_traffic(training.uses(strategy), [(6, 6, 6, 6), (2, 2, 2, 2)], 0)
    layers = tuple({Group(False, True): Fraction(size)} for size in (24, 8))
    stage = Stage({Group(False, True): Fraction(32)}, layers)
    sent = sent_bytes(training.uses(strategy), stage, ParallelDegrees(4))
    assert sent == sum(flow.sent for flow in run.values())


@pytest.mark.parametrize(
    ("strategy", "keep_views", "formula"),
    [
        ("ddp", "none", "f (4 + 2) Ψ"),
        ("zero1", "none", "f (4 + 2) Ψ"),
        ("zero2", "none", "f (3·4 + 2) Ψ"),
        ("zero3", "none", "3·f (2·2 + 4) Ψ"),
        ("zero3", "last", "3·f (2 + 4) Ψ + 3·f 2 (Ψ - last)"),
        ("zero3", "all", "3·f (2 + 4) Ψ"),
    ],
)
def test_gradients_reduced_in_fp32_travel_twice_as_heavy(
    strategy: str, keep_views: KeepViews, formula: str
) -> None:
    precision = BF16.override(reduce="float32")
    uses = Training(precision, micro_batches=3, keep_views=keep_views).uses(strategy)
    assert sent_formula(uses) == formula


def test_an_all_reduce_in_one_dtype_is_two_passes() -> None:
    assert sent_formula(Training(BF16, micro_batches=3).uses("ddp")) == "f (2 + 2) Ψ"


def test_traffic_is_a_multiple_of_f_n() -> None:
    degrees = ParallelDegrees(4)
    rows = ledger_rows([stage_of_count(8 * GB, 0, degrees)], degrees, Training(BF16))
    assert [row.fullest.sent for row in rows] == [24 * GB, 24 * GB, 24 * GB, 36 * GB]
    rows = ledger_rows([stage_of_count(8 * GB, 0, degrees)], degrees, Training(BF16, micro_batches=4))
    assert [row.fullest.sent for row in rows] == [24 * GB, 24 * GB, 60 * GB, 144 * GB]


def test_one_rank_sends_nothing() -> None:
    rows = ledger_rows([stage_of_count(5, 0, ParallelDegrees(1))], ParallelDegrees(1), Training(BF16))
    assert [row.fullest.sent for row in rows] == [0, 0, 0, 0]


def test_experts_are_sharded_over_the_copies_of_the_same_expert_alone() -> None:
    degrees = ParallelDegrees(ranks=16, tensor=2, expert=4)
    assert (degrees.copies(expert=False), degrees.copies(expert=True)) == (8, 2)
    stage = stage_of_count(1600, 800, degrees)
    assert stage.groups == {Group(False, True): 400, Group(True, True): 100}
    kept = {row.strategy: row.fullest.persistent for row in ledger_rows([stage], degrees, Training(BF16))}
    assert kept == {
        "ddp": 16 * 500,
        "zero1": 4 * 500 + 12 * (400 // 8 + 100 // 2),
        "zero2": 2 * 500 + 14 * (400 // 8 + 100 // 2),
        "zero3": 16 * (400 // 8 + 100 // 2),
    }
    sent = {row.strategy: row.fullest.sent for row in ledger_rows([stage], degrees, Training(BF16))}
    assert sent["zero1"] == 4 * (400 * Fraction(7, 8) + 100 * Fraction(1, 2))


@pytest.mark.parametrize(
    ("degrees", "message"),
    [
        ({"ranks": 4, "tensor": 3}, "4 ranks do not divide by --tensor-parallel 3: take a multiple of 3"),
        (
            {"ranks": 8, "pipeline": 4, "expert": 4},
            "by --pipeline 4 x --expert 4 = 16: take a multiple of 16 r",
        ),
        ({"ranks": 0}, "--ranks 0: give 1 or more"),
    ],
)
def test_degrees_that_do_not_divide_are_refused(degrees: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ParallelDegrees(**degrees)


def toy(blocks: int = 3, experts: int = 4) -> Model:
    """An embedding of 80, blocks of 8 + 64 + 32 for each expert, and a last layer of 8 and a tied head."""
    block = ModelLayer(
        "block",
        (Tensor("norm", (8,)), Tensor("mix", (8, 8)), Tensor("experts.up", (8, 4), experts, expert=True)),
        is_block=True,
    )
    head = Tensor("head", (10, 8), tied=True)
    return Model(
        "toy",
        ModelLayer("embedding", (Tensor("embed", (10, 8)),)),
        (block,) * blocks,
        ModelLayer("head", (Tensor("norm", (8,)), head)),
    )


def test_a_tied_head_counts_once_until_a_pipeline_parts_it_from_its_embedding() -> None:
    assert toy().num_params == 80 + 3 * (8 + 64 + 128) + 8
    assert sum(stage.num_params for stage in stages_of(toy(), ParallelDegrees(1))) == toy().num_params
    parted = stages_of(toy(), ParallelDegrees(2, pipeline=2))
    assert [stage.num_params for stage in parted] == [80 + 2 * 200, 200 + 8 + 80]


def test_tensor_ranks_split_matrices_and_copy_vectors_and_expert_ranks_have_experts_each() -> None:
    (stage,) = stages_of(toy(1), ParallelDegrees(8, tensor=2, expert=4))
    assert stage.groups == {
        Group(expert=False, matrix=False): 80 / 2 + 8 + 8,
        Group(expert=False, matrix=True): 64 / 2,
        Group(expert=True, matrix=True): 128 / 2 / 4,
    }


@pytest.mark.parametrize(
    ("degrees", "message"),
    [
        (ParallelDegrees(4, pipeline=4), "--pipeline 4 for 3 blocks of toy: take fewer stages"),
        (ParallelDegrees(3, expert=3), "block.experts.up: 4 experts do not divide by --expert 3"),
        (
            ParallelDegrees(3, tensor=3),
            r"embedding.embed: neither side of \(10, 8\) divides by --tensor-parallel 3",
        ),
    ],
)
def test_a_model_that_does_not_split_so_is_refused_by_tensor(degrees: ParallelDegrees, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stages_of(toy(), degrees)


def test_degrees_of_experts_need_experts() -> None:
    with pytest.raises(ValueError, match="toy has no experts"):
        stages_of(toy(experts=0), ParallelDegrees(2, expert=2))
    with pytest.raises(ValueError, match="give --expert-params, --config or --safetensors"):
        stage_of_count(8, 0, ParallelDegrees(2, expert=2))
    with pytest.raises(ValueError, match="9 expert parameters of 8"):
        stage_of_count(8, 9, ParallelDegrees(1))


def test_muon_keeps_one_moment_of_the_matrices_and_two_of_the_rest() -> None:
    degrees = ParallelDegrees(1)
    rows = ledger_rows(stages_of(toy(1), degrees), degrees, Training(BF16, "muon"))
    assert rows[0].fullest.kept["moment"] == 4 * (64 + 128) + 8 * (80 + 8 + 8)


def test_what_a_layer_in_use_adds_is_of_the_kinds_that_the_meter_has() -> None:
    """The largest layer of the toy has 200 parameters; BF16 weights are computed with in FP32."""
    degrees = ParallelDegrees(2)
    training = Training(BF16, prefetch=1)
    passing = {
        row.strategy: row.highest.passing for row in ledger_rows(stages_of(toy(), degrees), degrees, training)
    }
    assert passing == {
        "ddp": {"compute copy": 800},
        "zero1": {"compute copy": 800},
        "zero2": {"compute copy": 800, "buffer": 400},
        "zero3": {"view": 2 * 400, "compute copy": 800, "buffer": 400},
    }


def test_views_are_never_more_than_the_model() -> None:
    degrees = ParallelDegrees(2)
    for training in (Training(BF16, prefetch=99), Training(BF16, keep_views="all")):
        zero3 = ledger_rows(stages_of(toy(), degrees), degrees, training)[-1]
        assert zero3.highest.passing is not None
        assert zero3.highest.passing["view"] == 2 * toy().num_params


def test_without_shapes_nothing_is_known_of_a_layer_in_use() -> None:
    degrees = ParallelDegrees(2)
    rows = ledger_rows([stage_of_count(8, 0, degrees)], degrees, Training(BF16))
    assert [row.highest.with_a_layer for row in rows] == [None] * 4


QUICK = settings(max_examples=25, phases=[Phase.generate, Phase.shrink])
"""A failure is not explained: that traces every line and takes minutes."""

TRAININGS = st.builds(
    Training,
    precision=st.sampled_from(list(PRECISIONS.values())),
    optimizer=st.sampled_from(list(UPDATES)),
    micro_batches=st.integers(1, 4),
    prefetch=st.integers(0, 3),
    keep_views=st.sampled_from(get_args(KeepViews)),
)
DEGREES = st.builds(
    lambda copies, tensor, pipeline, expert: ParallelDegrees(
        copies * tensor * pipeline * expert, tensor, pipeline, expert
    ),
    st.integers(1, 6), st.sampled_from([1, 2]), st.integers(1, 3), st.sampled_from([1, 2, 4]),
)  # fmt: skip


@QUICK
@given(degrees=DEGREES, training=TRAININGS, factor=st.integers(2, 5))
def test_more_ranks_never_keep_more_and_each_stage_keeps_no_more_than_the_one_before(
    degrees: ParallelDegrees, training: Training, factor: int
) -> None:
    more = ParallelDegrees(degrees.ranks * factor, degrees.tensor, degrees.pipeline, degrees.expert)
    few, many = (ledger_rows(stages_of(toy(), each), each, training) for each in (degrees, more))
    for row, beside in zip(few, many, strict=True):
        assert beside.fullest.persistent <= row.fullest.persistent
        assert row.fullest.with_a_layer is not None
        assert row.highest.with_a_layer is not None
        assert row.fullest.persistent <= row.fullest.with_a_layer <= row.highest.with_a_layer
        assert beside.highest.with_a_layer is not None
        assert beside.highest.with_a_layer <= row.highest.with_a_layer
    kept = [row.fullest.persistent for row in few]
    assert kept == sorted(kept, reverse=True)


@QUICK
@given(degrees=DEGREES, training=TRAININGS)
def test_all_ranks_of_zero3_together_keep_one_copy(degrees: ParallelDegrees, training: Training) -> None:
    stages = stages_of(toy(), degrees)
    alone = Fraction(0)
    for stage in stages:
        for group, count in stage.groups.items():
            parts = degrees.tensor * (degrees.expert if group.expert else 1)
            alone += count * parts * sum(training.kept_a_parameter(group.matrix).values())
    together = sum(
        ledger_rows([stage], degrees, training)[-1].fullest.persistent * degrees.ranks / degrees.pipeline
        for stage in stages
    )
    assert together == alone


@QUICK
@given(parts=st.lists(st.builds(Fraction, st.integers(0, 10**12), st.integers(1, 9)), max_size=4))
def test_kinds_in_whole_bytes_add_up_to_the_whole(parts: list[Fraction]) -> None:
    whole = whole_bytes({str(number): part for number, part in enumerate(parts)})
    assert sum(whole.values()) == ceil(sum(parts))
    assert all(abs(whole[str(number)] - part) <= 1 for number, part in enumerate(parts))


@QUICK
@given(
    degrees=DEGREES,
    training=TRAININGS,
    memory=st.integers(1, 20_000),
    with_a_layer=st.booleans(),
    bare=st.booleans(),
)
def test_the_fewest_ranks_fit_and_one_copy_less_does_not(
    degrees: ParallelDegrees, training: Training, memory: int, with_a_layer: bool, bare: bool
) -> None:
    def stages(each: ParallelDegrees) -> Any:
        return [stage_of_count(1001, 700, each)] if bare else stages_of(toy(), each)

    with_a_layer = with_a_layer and not bare
    if bare:  # which parameters the last layer has is not known
        training = replace(training, keep_views="none")

    def fits(strategy: str, ranks: int) -> bool:
        each = ParallelDegrees(ranks, degrees.tensor, degrees.pipeline, degrees.expert)
        row = {row.strategy: row for row in ledger_rows(stages(each), each, training)}[strategy]
        held = row.highest.with_a_layer if with_a_layer else row.fullest.persistent
        assert held is not None
        return held <= memory

    for strategy in PLAIN:
        fewest = fewest_ranks(strategy, stages(degrees), degrees, training, memory, with_a_layer=with_a_layer)
        if fewest is None:
            assert not fits(strategy, 10**6 * degrees.least_ranks)
        else:
            assert fits(strategy, fewest)
            assert fewest == degrees.least_ranks or not fits(strategy, fewest - degrees.least_ranks)


def test_the_fewest_ranks_are_found_exactly_not_by_doubling() -> None:
    stage = [stage_of_count(8 * GB, 0, ParallelDegrees(4))]

    def fewest(strategy: str, memory: int) -> int | None:
        return fewest_ranks(strategy, stage, ParallelDegrees(4), Training(BF16), memory, with_a_layer=False)

    assert [fewest(strategy, 80 * GB) for strategy in PLAIN] == [None, 2, 2, 2]
    assert [fewest(strategy, 24 * GB) for strategy in PLAIN] == [None, None, 14, 6]
    assert fewest("ddp", 128 * GB) == 1
    assert fewest("zero1", 32 * GB) is None
