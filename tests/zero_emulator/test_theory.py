"""The closed forms: worked out by hand, as multiples of f(N) Ψ, and against what is counted."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.algorithms import find_algorithm
from collectives.offsets import bind
from collectives.transports.threads import run_threads
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.expected_memory import expected_persistent
from zero_emulator.expected_traffic import expected_overhead, expected_traffic, first_update
from zero_emulator.precision import find_precision
from zero_emulator.run import run
from zero_emulator.strategies import STRATEGIES
from zero_emulator.theory import (
    CLAIMED,
    UPDATES,
    Flow,
    iteration_traffic,
    multiple,
    persistent_bytes,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    ring_scratch,
)
from zero_emulator.theory.views import gathers, views_held
from zero_emulator.traffic import IterationTraffic

UNEVEN = (3, 2, 1)  # blocks of 3 ranks
LAYERS = (UNEVEN, (1, 1, 0))  # Ψ = 8
EQUAL = ((6, 6, 6, 6), (2, 2, 2, 2))  # Ψ = 32 on 4 ranks

FP32 = find_precision("fp32")


def test_a_reduce_scatter_sends_all_blocks_but_its_own_and_receives_all_but_its_left_neighbours() -> None:
    assert [ring_reduce_scatter(UNEVEN, rank) for rank in range(3)] == [(3, 5), (4, 3), (5, 4)]


def test_an_all_gather_sends_all_blocks_but_its_right_neighbours_and_receives_all_but_its_own() -> None:
    assert [ring_all_gather(UNEVEN, rank) for rank in range(3)] == [(4, 3), (5, 4), (3, 5)]


def test_an_all_reduce_is_the_two() -> None:
    assert [ring_all_reduce(UNEVEN, rank) for rank in range(3)] == [(7, 8), (9, 7), (8, 9)]


def test_one_rank_sends_nothing() -> None:
    assert ring_all_reduce((7,), 0) == Flow(0, 0)
    assert multiple(0, [(7, 1)], 4) is None


@pytest.mark.parametrize(
    ("strategy", "micro_batches", "keep_views", "flows"),
    [
        # Rank 0 sends 3 + 1 elements in a reduce-scatter of the layers, 4 + 1 in an all-gather.
        ("ddp", 1, "none", {("backward", "all_reduce"): (9, 11)}),
        ("ddp", 4, "none", {("backward", "all_reduce"): (9, 11)}),
        ("zero1", 4, "none", {("backward", "reduce_scatter"): (4, 7), ("update", "all_gather"): (5, 4)}),
        ("zero2", 4, "none", {("backward", "reduce_scatter"): (16, 28), ("update", "all_gather"): (5, 4)}),
        (
            "zero3", 2, "none",
            {("forward", "all_gather"): (10, 8), ("backward", "all_gather"): (10, 8),
             ("backward", "reduce_scatter"): (8, 14)},
        ),
        (
            "zero3", 2, "last",
            {("forward", "all_gather"): (10, 8), ("backward", "all_gather"): (8, 6),
             ("backward", "reduce_scatter"): (8, 14)},
        ),
        ("zero3", 2, "all", {("forward", "all_gather"): (10, 8), ("backward", "reduce_scatter"): (8, 14)}),
    ],
)  # fmt: skip
def test_the_traffic_of_an_iteration_is_the_one_worked_out_by_hand(
    strategy: str, micro_batches: int, keep_views: Any, flows: dict[tuple[str, str], Flow]
) -> None:
    uses = CLAIMED[strategy].uses(micro_batches, keep_views, FP32)
    expected = {key: Flow(4 * sent, 4 * received) for key, (sent, received) in flows.items()}
    assert iteration_traffic(uses, LAYERS, 0) == expected


@pytest.mark.parametrize(
    ("strategy", "micro_batches", "keep_views", "times"),
    [
        ("ddp", 1, "none", 2), ("zero1", 1, "none", 2), ("zero2", 1, "none", 2), ("zero3", 1, "none", 3),
        ("ddp", 4, "none", 2), ("zero1", 4, "none", 2), ("zero2", 4, "none", 5), ("zero3", 4, "none", 12),
        ("zero3", 1, "all", 2), ("zero3", 4, "all", 8), ("zero3", 1, "last", 3 - 8 / 32),
    ],
)  # fmt: skip
def test_equal_blocks_give_whole_multiples_of_f_psi(
    strategy: str, micro_batches: int, keep_views: Any, times: float
) -> None:
    uses = CLAIMED[strategy].uses(micro_batches, keep_views, FP32)
    for rank in range(4):
        flows = iteration_traffic(uses, EQUAL, rank).values()
        assert sum(flow.sent for flow in flows) == times * 24 * 4  # f(4) Ψ = 24
        assert sum(flow.received for flow in flows) == times * 24 * 4
        assert multiple(sum(flow.sent for flow in flows), [(32, 4)], 4) == times
    if micro_batches == 1 and keep_views == "none":
        assert CLAIMED[strategy].claim == times


@pytest.mark.parametrize(("stage", "strategy"), [*enumerate(["ddp", "zero1", "zero2", "zero3"])])
@pytest.mark.parametrize("num_ranks", [1, 2, 4, 8])
def test_adam_in_fp32_keeps_the_well_known_bytes(stage: int, strategy: str, num_ranks: int) -> None:
    layers = [(12,) * num_ranks, (5,) * num_ranks]
    kept = sum(persistent_bytes(strategy, layers, 0, FP32, UPDATES["adam"].moments).values())
    per_parameter = (16, 8 + 8 / num_ranks, 4 + 12 / num_ranks, 16 / num_ranks)[stage]
    assert kept == per_parameter * 17 * num_ranks


def test_uneven_blocks_are_kept_to_the_element() -> None:
    assert persistent_bytes("zero3", LAYERS, 0, FP32, UPDATES["sgd-momentum"].moments) == {
        "weight": 16,
        "gradient": 16,
        "moment": 16,
    }
    assert persistent_bytes("zero2", LAYERS, 2, FP32, UPDATES["adam"].moments) == {
        "weight": 32,
        "gradient": 4,
        "moment": 8,
    }
    assert persistent_bytes("zero1", LAYERS, 1, find_precision("fp64"), UPDATES["sgd"].moments) == {
        "weight": 64,
        "gradient": 64,
        "moment": 0,
    }


def test_traffic_equals_its_closed_form_only_flow_by_flow() -> None:
    """A byte too few, one in another phase or in another collective, or one that was only received, shows."""
    expected = {("forward", "all_gather"): Flow(8, 4), ("backward", "all_reduce"): Flow(0, 0)}

    def counted(sent: dict[Any, int], received: dict[Any, int]) -> IterationTraffic:
        traffic = IterationTraffic()
        traffic.sent.update(sent)
        traffic.received.update(received)
        return traffic

    key = ("forward", "all_gather")
    assert counted({key: 8}, {key: 4}).equals(expected)
    assert counted({key: 8, ("backward", "all_gather"): 0}, {key: 4}).equals(expected)
    assert not counted({key: 7}, {key: 4}).equals(expected)
    assert not counted({key: 8}, {key: 5}).equals(expected)
    assert not counted({("backward", "all_gather"): 8}, {key: 4}).equals(expected)
    assert not counted({key: 8, ("update", "all_gather"): 1}, {key: 4}).equals(expected)
    assert not counted({}, {}).equals(expected)


@settings(max_examples=25)
@given(rng=st.randoms(use_true_random=True))
def test_whatever_is_trained_sends_and_keeps_what_the_closed_form_says(
    toy: Dataset, spoilt: Dataset, any_run: Any, rng: Random
) -> None:
    """Sent and received, of every kind, in every iteration, flow by flow; and what is kept."""
    config = RunConfig(**any_run(rng))
    num_ranks, audit_gradients = rng.randint(1, 8), rng.choice([False, True])
    dataset = rng.choice([toy, spoilt])
    outcome = run_threads(
        num_ranks,
        lambda transport: run(config, dataset, transport, poison=True, audit_gradients=audit_gradients),
    )[0]
    partition = config.partition(dataset, num_ranks)
    for rank, report in enumerate(outcome.reports):
        iterations = range(1, config.iterations + 1)
        updated_first = first_update(config.iterations, report.skipped)
        assert set(report.traffic.by_iteration) <= set(iterations)
        for iteration in iterations:
            counted = report.traffic.by_iteration[iteration]
            skipped = iteration in report.skipped
            assert counted.equals(expected_traffic(config, partition, rank, skipped=skipped))
            overhead = expected_overhead(
                config,
                partition,
                rank,
                iteration,
                skipped=skipped,
                gradient_audit=audit_gradients and iteration == updated_first,
            )
            assert {kind: counted.overhead(kind) for kind in overhead} == overhead
        assert report.persistent == expected_persistent(config, partition, rank)


def test_every_strategy_has_its_closed_forms() -> None:
    assert set(STRATEGIES) == set(CLAIMED)


@pytest.mark.parametrize("sizes", [(5,), (3, 2), (4, 0, 1), (1, 5, 2, 4), (2, 9, 1, 0, 7)])
@pytest.mark.parametrize(
    ("collective", "in_place"),
    [("all_gather", False), ("all_gather", True), ("reduce_scatter", False), ("reduce_scatter", True),
     ("all_reduce", True)],
)  # fmt: skip
def test_a_ring_works_in_what_the_closed_form_says(
    sizes: tuple[int, ...], collective: str, in_place: bool
) -> None:
    for rank in range(len(sizes)):
        bound = bind(find_algorithm("ring", collective), rank, sizes, 8, in_place, 1)
        assert ring_scratch(collective, sizes, rank, in_place=in_place) == bound.scratch_size


def test_a_view_is_held_from_its_early_start_to_its_last_use() -> None:
    """Visits 0 to 5: forward of layers 0, 1, 2, backward of 2, 1, 0."""
    none, kept = gathers(3, 1, "none"), gathers(3, 1, "all")
    assert [views_held(none, visit, 0) for visit in range(6)] == [[0], [1], [2], [2], [1], [0]]
    ahead = [[0, 1], [1, 2], [2, 2], [2, 1], [1, 0], [0]]
    assert [views_held(none, visit, 1) for visit in range(6)] == ahead
    assert [views_held(none, visit, 1, after=True) for visit in range(6)] == [held[1:] for held in ahead]
    all_of = [[0], [0, 1], [0, 1, 2], [0, 1, 2], [0, 1], [0]]
    assert [views_held(kept, visit, 0) for visit in range(6)] == all_of
