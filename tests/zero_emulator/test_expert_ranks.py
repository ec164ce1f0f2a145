"""Experts shared out over ranks, against one process that has them all; and what travels between them."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from collectives.blocks import bounds, even_cut
from collectives.communicator import Communicator
from collectives.ledger import Ledger
from collectives.transports.metered import MeteredTransport
from zero_emulator.experts import (
    NUM_EXCHANGES,
    CommunicatorPeers,
    Experts,
    ExpertSettings,
    Routing,
    build_expert_mlp,
    exchanged_rows,
    part,
    travel_table,
)
from zero_emulator.grid import Grid
from zero_emulator.layer import Layer
from zero_emulator.layout import Array
from zero_emulator.losses import softmax_cross_entropy
from zero_emulator.meter import Meter
from zero_emulator.model import initial_parameters
from zero_emulator.optimizers import SGD
from zero_emulator.partition import make_partition
from zero_emulator.precision import find_precision
from zero_emulator.serial import loss_and_gradients, train_serially
from zero_emulator.strategies import STRATEGIES, StrategyOptions
from zero_emulator.trainer import Trainer

RANKS, EXPERTS, WIDTH = 4, 4, 5

SETTINGS = {
    "top-1": ExpertSettings(EXPERTS, 1, 3, balance=0.2),
    "top-2 dropping": ExpertSettings(EXPERTS, 2, 3, capacity=0.8, balance=0.2),
}

on_four_ranks = pytest.mark.parametrize("world_size", [RANKS])


class Result(NamedTuple):
    """What one rank computes on its rows."""

    outputs: Array
    loss: float
    gradients: list[Array]
    routings: list[Routing]


def model(settings: ExpertSettings) -> tuple[tuple[Layer, ...], list[Array]]:
    """Two blocks of experts, and parameters whose biases are not zero."""
    layers, rng = build_expert_mlp([3, WIDTH, WIDTH, 3], settings), np.random.default_rng(1)
    parameters = initial_parameters(layers, 4, np.float64)
    return layers, [params + 0.1 * rng.standard_normal(params.size) for params in parameters]


def batch(num_rows: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(2)
    return rng.standard_normal((num_rows, 3)), rng.integers(0, 3, num_rows)


def compute(
    layers: Sequence[Layer], parameters: list[Array], x: Array, y: Array, global_count: int
) -> Result:
    loss, gradients = loss_and_gradients(layers, parameters, softmax_cross_entropy, x, y, global_count)
    routings = []
    for layer, params in zip(layers, parameters, strict=True):
        x, kept = layer.forward(params, x)
        routings += [kept.routing] if hasattr(kept, "routing") else []
    return Result(x, loss, gradients, routings)


def shared_out(
    comm: Communicator, degree: int, layers: Sequence[Layer], parameters: list[Array], **options: Any
) -> tuple[tuple[Layer, ...], list[Array]]:
    """The layers and parameters as this rank has them where ``degree`` neighbours share the experts."""
    expert = comm.split(comm.rank // degree)
    assert expert is not None
    mine = part(
        layers, expert.rank, degree, CommunicatorPeers(comm, expert, expert.exchange(comm.rank), **options)
    )
    return mine, [
        params[layer.place] if isinstance(layer, Experts) else params
        for layer, params in zip(mine, parameters, strict=True)
    ]


def on_ranks(run_ranks: Any, degree: int, settings: ExpertSettings, num_rows: int) -> list[Result]:
    layers, parameters = model(settings)
    x, y = batch(num_rows)

    def body(comm: Communicator) -> Result:
        rows = bounds(even_cut(num_rows, RANKS))[comm.rank]
        mine = shared_out(comm, degree, layers, parameters)
        return compute(*mine, x[rows], y[rows], num_rows)

    return list(run_ranks(body))


def assert_like_one_process(
    results: list[Result], degree: int, settings: ExpertSettings, num_rows: int, divisor: int = 1
) -> None:
    """Gradients are summed over copies: of an expert those at its position, of all else every rank's.

    ``divisor`` plants a fault: what the gradients of experts are divided by.
    """
    layers, parameters = model(settings)
    whole = compute(layers, parameters, *batch(num_rows), num_rows)
    close = partial(np.testing.assert_allclose, rtol=0, atol=1e-12)
    close(np.concatenate([result.outputs for result in results]), whole.outputs)
    close(sum(result.loss for result in results), whole.loss)
    for index, layer in enumerate(layers):
        gradients = [result.gradients[index] for result in results]
        if isinstance(layer, Experts):
            parts = [sum(gradients[position::degree]) / divisor for position in range(degree)]
            close(np.concatenate(parts), whole.gradients[index])
        else:
            close(sum(gradients), whole.gradients[index])
    for block, routing in enumerate(whole.routings):
        assert routing.counts.sum() == settings.top_k * num_rows
        for result in results:
            there = result.routings[block]
            assert (there.kept.sum(axis=0) == routing.kept.sum(axis=0)).all()
            assert (there.dropped.sum(axis=0) == routing.dropped.sum(axis=0)).all()


@on_four_ranks
@pytest.mark.parametrize("num_rows", [13, 2], ids=["uneven", "ranks without rows"])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("degree", [1, 2, 4])
def test_ranks_compute_what_one_process_does(
    run_ranks: Any, degree: int, settings: ExpertSettings, num_rows: int
) -> None:
    results = on_ranks(run_ranks, degree, settings, num_rows)
    assert_like_one_process(results, degree, settings, num_rows)


@on_four_ranks
def test_an_expert_gradient_that_is_divided_by_its_own_copies_is_seen(run_ranks: Any) -> None:
    results = on_ranks(run_ranks, 2, SETTINGS["top-1"], 13)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        assert_like_one_process(results, 2, SETTINGS["top-1"], 13, divisor=RANKS // 2)


@on_four_ranks
def test_rows_are_dropped_by_their_global_order(run_ranks: Any) -> None:
    """Later ranks drop more than earlier ones, and something is dropped at all."""
    routing = on_ranks(run_ranks, 2, SETTINGS["top-2 dropping"], 13)[0].routings[0]
    assert routing.dropped.sum() > 0
    for kept, dropped in zip(routing.kept.T, routing.dropped.T, strict=True):
        for rank in np.flatnonzero(dropped):
            assert not kept[rank + 1 :].any()


@on_four_ranks
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("degree", [1, 2, 4])
def test_the_bytes_that_travel_are_those_of_the_routing(
    run_ranks: Any, degree: int, settings: ExpertSettings
) -> None:
    layers, parameters = model(settings)
    x, y = batch(13)

    def body(comm: Communicator) -> tuple[int, int, int]:
        ledger = Ledger()
        comm = Communicator(MeteredTransport(comm.transport, ledger), check=False)
        mine = shared_out(comm, degree, layers, parameters)
        rows = bounds(even_cut(len(x), RANKS))[comm.rank]
        loss_and_gradients(*mine, softmax_cross_entropy, x[rows], y[rows], len(x))
        calls = {entry.origin.call for entry in ledger.entries}
        exchanges = sum(call.collective == "all_to_all" for call in calls)
        return ledger.sent("training"), ledger.sent("control"), exchanges

    routings = on_ranks(run_ranks, degree, settings, 13)[0].routings
    for rank, (training, control, exchanges) in enumerate(run_ranks(body)):
        first, position = rank - rank % degree, rank % degree
        tables = [travel_table(routing.kept[first : first + degree]) for routing in routings]
        rows = sum(sum(exchanged_rows(table, position)) for table in tables)
        assert training == NUM_EXCHANGES // 2 * rows * WIDTH * 8
        # the router's counts and the experts', around a ring
        assert control == 2 * len(routings) * (RANKS - 1) * EXPERTS * 8
        assert exchanges == NUM_EXCHANGES * len(routings)


@on_four_ranks
def test_every_exchange_is_made_by_ranks_that_need_no_gradient_of_what_came_in(run_ranks: Any) -> None:
    layers, parameters = model(SETTINGS["top-1"])
    x = np.abs(np.random.default_rng(3).standard_normal((RANKS, WIDTH + EXPERTS)))

    def body(comm: Communicator) -> tuple[Array | None, Array]:
        mine, params = shared_out(comm, 2, layers, parameters)
        y, saved = mine[2].forward(params[2], x[: comm.rank])
        gradient = np.empty_like(params[2])
        needs = comm.rank % 2 == 0
        grad_x = mine[2].backward(params[2], saved, y, gradient, needs_grad_x=needs)
        return grad_x, gradient

    for rank, (grad_x, gradient) in enumerate(run_ranks(body)):
        assert (grad_x is not None) == (rank % 2 == 0)
        assert np.isfinite(gradient).all()


@on_four_ranks
def test_what_arrives_is_counted_as_activations_and_freed(run_ranks: Any) -> None:
    layers, parameters = model(SETTINGS["top-1"])
    x, y = batch(13)

    def body(comm: Communicator) -> tuple[int, int]:
        meter = Meter()
        mine = shared_out(comm, 4, layers, parameters, empty=partial(meter.empty, "activation"))
        rows = bounds(even_cut(13, RANKS))[comm.rank]
        loss_and_gradients(*mine, softmax_cross_entropy, x[rows], y[rows], 13)
        return meter.peak.total, meter.alive["activation"]

    peaks, alive = zip(*run_ranks(body), strict=True)
    assert min(peaks) > 0
    assert not any(alive)


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [3])
@pytest.mark.parametrize("strategy", ["ddp", "zero3"])
def test_every_rank_with_all_experts_trains_as_one_process_does(run_ranks: Any, strategy: str) -> None:
    layers = build_expert_mlp([3, WIDTH, 3], SETTINGS["top-2 dropping"])
    optimizer, batches = SGD(0.1, 0.9), [batch(11)] * 3

    def body(comm: Communicator) -> tuple[list[float], Any]:
        mine = part(layers, 0, 1, CommunicatorPeers(comm, None, [comm.rank]))
        partition = make_partition(mine, Grid(comm.world_size), micro_batches=2)
        options = StrategyOptions(micro_batches=2)
        there = STRATEGIES[strategy](comm, partition, 5, find_precision("fp64"), optimizer, options)
        trainer = Trainer(mine, softmax_cross_entropy, there)
        losses = [trainer.iterate(x, y) for x, y in batches]
        return losses, [params.own_weight.copy() for params in there.layers]

    parameters = initial_parameters(layers, 5, np.float64)
    expected = train_serially(layers, parameters, optimizer, softmax_cross_entropy, batches, micro_batches=2)
    losses, weights = zip(*run_ranks(body), strict=True)
    np.testing.assert_allclose(np.sum(losses, axis=0), expected, rtol=0, atol=1e-12)
    for blocks, params in zip(zip(*weights, strict=True), parameters, strict=True):
        np.testing.assert_allclose(np.concatenate(blocks), params, rtol=0, atol=1e-12)


def no_loss(outputs: Array, targets: Array, global_count: int) -> tuple[float, Array]:
    """Leaves that of the layers themselves."""
    return 0.0, np.zeros_like(outputs)


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [1])
def test_the_trainer_scales_the_balancing_loss_like_any_other(run_ranks: Any) -> None:
    layers = build_expert_mlp([3, WIDTH, 3], SETTINGS["top-1"])
    x, y = batch(8)

    def body(comm: Communicator) -> Array:
        policy = find_precision("fp16")
        there = STRATEGIES["ddp"](comm, make_partition(layers, Grid(1)), 5, policy, SGD(0.1))
        assert there.loss_scale is not None
        there.loss_scale.value = 64.0
        Trainer(layers, no_loss, there).iterate(x.astype(policy.compute), y)
        return there.layers[1].grad.astype(np.float64)

    parameters = initial_parameters(layers, 5, np.float64)
    _, expected = loss_and_gradients(layers, parameters, no_loss, x, y, len(x))
    np.testing.assert_allclose(run_ranks(body)[0], 64 * expected[1], rtol=1e-2, atol=1e-4)
