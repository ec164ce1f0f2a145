"""Faults that only experts can have: each is planted, and the check that is named must refute it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from collectives.communicator import IN_PLACE
from zero_emulator.compare import GRADIENT_TOLERANCE, Comparison
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.differences import largest_difference, relative_difference
from zero_emulator.experts import ALONE, CommunicatorPeers, Experts, Router, Routing
from zero_emulator.experts.travel import Travel
from zero_emulator.judge import faults
from zero_emulator.layout import Array
from zero_emulator.outcome import Outcome
from zero_emulator.rank_run import RankRun
from zero_emulator.reference import first_gradients, serial_run
from zero_emulator.run import run
from zero_emulator.strategies import Strategy
from zero_emulator.strategies.ddp import DDP
from zero_emulator.strategies.zero1 import Zero1

pytestmark = [pytest.mark.parametrize("world_size", [4]), pytest.mark.on_threads]

SPLIT = {
    "expert": 2, "experts": 4, "expert_hidden": 3, "hidden": (4,), "optimizer": "sgd", "lr": 0.1, "seed": 24,
}  # fmt: skip
"""Ranks 0 and 2 have experts 0 and 1, ranks 1 and 3 experts 2 and 3; with this seed all are chosen.

Layer 1 is a Router, layer 2 Experts."""

WORDS = {
    "counted": "traffic",
    "different parameters": "digest",
    "different views": "views",
    "do not route": "routing",
}
"""By what a fault says: the check that found it."""


@pytest.fixture
def trained(run_ranks: Any, toy: Dataset, settings: dict[str, Any]) -> Callable[..., Outcome]:
    def trained(strategy: str = "ddp", **chosen: Any) -> Outcome:
        config = RunConfig(**settings | SPLIT | chosen, strategy=strategy)
        return run_ranks(lambda comm: run(config, toy, comm.transport, audit_gradients=True, poison=True))[0]

    return trained


@pytest.fixture
def refuted(trained: Any, toy: Dataset) -> Callable[..., set[str]]:
    """Train with one strategy, and which checks refute what came out."""

    def refuted(strategy: str = "ddp", **chosen: Any) -> set[str]:
        outcome = trained(strategy, **chosen)
        config = outcome.config
        found = faults(config, config.partition(toy, 4), outcome)
        checks = {check for fault in found for word, check in WORDS.items() if word in fault}
        assert len(found) == sum(any(word in fault for word in WORDS) for fault in found)
        if (
            relative_difference(outcome.gradients, first_gradients(config, toy, 4, 1))
            > GRADIENT_TOLERANCE["float64"]
        ):
            checks.add("gradient")
        if largest_difference(outcome.weights, serial_run(config, toy, 4).weights) > 1e-12:
            checks.add("serial")
        return checks

    return refuted


@pytest.mark.parametrize("strategy", ["ddp", "zero3"])
def test_without_a_fault_nothing_is_refuted(refuted: Any, strategy: str) -> None:
    assert refuted(strategy, top_k=2, capacity=0.7, balance=1.0) == set()


def test_an_expert_gradient_that_is_divided_by_its_own_copies_is_off(refuted: Any, monkeypatch: Any) -> None:
    """Every row is divided by the global batch already."""
    backward = Experts.backward

    def divided(
        self: Experts, params: Array, saved: Any, grad_y: Array, grad_params: Array, *more: Any, **named: Any
    ) -> Any:
        grad_x = backward(self, params, saved, grad_y, grad_params, *more, **named)
        if self.peers is not ALONE:  # as it is in one process
            grad_params /= 2
        return grad_x

    monkeypatch.setattr(Experts, "backward", divided)
    assert refuted() == {"gradient", "serial"}


def test_an_expert_gradient_that_all_ranks_of_the_stage_add_up_is_off_and_too_far_sent(
    refuted: Any, monkeypatch: Any
) -> None:
    """The parts of other experts are as large, so it fits."""
    reduce = DDP.reduce

    def over_the_stage(self: DDP, layer: int) -> None:
        if self.share.held[layer].expert:
            self.works.append(self.comm.all_reduce(IN_PLACE, self.layers[layer].summed_grad))
        else:
            reduce(self, layer)

    monkeypatch.setattr(DDP, "reduce", over_the_stage)
    assert refuted() == {"traffic", "gradient", "serial"}


def test_a_balancing_loss_of_the_local_counts_is_another_loss(refuted: Any, monkeypatch: Any) -> None:
    forward = Router.forward

    def local(self: Router, *arguments: Any, global_count: int = 1, **more: Any) -> Any:
        y, saved = forward(self, *arguments, global_count=global_count, **more)
        counts = saved.chosen.sum(axis=0)
        shares = counts / max(1, counts.sum())
        return y, saved._replace(slopes=self.balance * self.num_experts * shares / global_count)

    monkeypatch.setattr(Router, "forward", local)
    assert refuted(balance=1.0) == {"gradient", "serial"}
    assert refuted(balance=0.0) == set()


def test_a_capacity_by_the_local_order_keeps_other_rows(refuted: Any, monkeypatch: Any) -> None:
    """Each rank fills the experts as if its rows were the first: all say so, and no byte tells."""

    def route(counts: Array, top_k: int, capacity: float) -> Routing:
        room = int(np.ceil(capacity * counts.sum() / counts.shape[1]))
        return Routing(counts, np.clip(room, 0, counts))

    monkeypatch.setattr("zero_emulator.experts.router.route", route)
    assert refuted(capacity=0.7) == {"gradient", "serial"}


@pytest.mark.parametrize("way", ["combine", "leaving_rows"])
def test_rows_in_the_wrong_place_are_other_outputs(refuted: Any, monkeypatch: Any, way: str) -> None:
    """What goes to an expert, or comes back from it, changes places: as many rows, so no byte tells."""

    def turned(travel: Travel) -> Travel:
        sent = (one._replace(samples=one.samples[::-1]) for one in travel.sent)
        return travel._replace(sent=tuple(sent))

    def misplaced(*arguments: Any) -> Array:
        return right(*(turned(one) if isinstance(one, Travel) else one for one in arguments))

    right = getattr(__import__("zero_emulator.experts.home", fromlist=[way]), way)
    monkeypatch.setattr(f"zero_emulator.experts.experts.{way}", misplaced)
    assert refuted() == {"gradient", "serial"}


def spoil_rank_3(monkeypatch: Any, *, expert: bool) -> None:
    init = Strategy.__init__

    def spoiled(self: Strategy, comm: Any, *more: Any) -> None:
        init(self, comm, *more)
        if comm.rank == 3:
            (layer, *_) = (at for at, held in enumerate(self.share.held) if held.expert == expert)
            self.layers[layer].weight[0] += 0.01

    monkeypatch.setattr(Strategy, "__init__", spoiled)


@pytest.mark.parametrize(
    ("expert", "words"),
    [
        (True, "1 and 3 hold different parameters of experts"),
        (False, "0 and 3 hold different parameters of dense layers"),
    ],
)
def test_a_copy_that_starts_differently_is_named(
    refuted: Any, trained: Any, toy: Dataset, monkeypatch: Any, expert: bool, words: str
) -> None:
    spoil_rank_3(monkeypatch, expert=expert)
    outcome = trained()
    partition = outcome.config.partition(toy, 4)
    found = faults(outcome.config, partition, outcome)
    assert [fault.partition(": digests")[0] for fault in found] == [
        f"iteration {one}: ranks {words}" for one in (1, 2)
    ]


def test_an_expert_whose_owner_skips_an_update_and_denies_it_has_other_bits_than_with_ddp(
    trained: Any, monkeypatch: Any
) -> None:
    """Its copies gather the same old block, and rank 0 never sees it: only ranks 1 and 3 have the expert."""
    expected = trained("ddp")
    update_layers = Zero1.update_layers

    def skipping(self: Zero1, scale: float) -> None:
        layers = self.layers
        if self.comm.rank == 1:
            layers[2].version += 1
            self.layers = [layers[0], layers[1], layers[3]]
        update_layers(self, scale)
        self.layers = layers

    monkeypatch.setattr(Zero1, "update_layers", skipping)
    outcomes = {"ddp": expected, "zero1": trained("zero1")}
    nothing = dict.fromkeys(outcomes, 0.0)
    comparison = Comparison(outcomes, nothing, nothing, nothing, nothing, {})
    assert comparison.faults(expected.config) == {
        "ddp": [],
        "zero1": ["zero1 differs from ddp from iteration 1 on"],
    }


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_rank_that_reports_another_routing_contradicts_the_first_of_its_stage(
    refuted: Any, monkeypatch: Any, forgotten: bool
) -> None:
    finish = RankRun.finish

    def lying(self: RankRun) -> Any:
        if self.comm.rank == 1:
            key, routing = next(iter(self.routings[2].items()))
            self.routings[2] = (
                {} if forgotten else {key: replace(routing, kept=np.maximum(routing.kept - 1, 0))}
            )
        return finish(self)

    monkeypatch.setattr(RankRun, "finish", lying)
    assert refuted() == {"routing"}


def test_rows_that_are_dropped_and_sent_all_the_same_are_too_much(refuted: Any, monkeypatch: Any) -> None:
    """One row more from each to each: as if a gate had been lost on the way."""
    exchange = CommunicatorPeers.exchange

    def wasteful(self: CommunicatorPeers, rows: Array, table: Array) -> Array:
        arrived = exchange(self, rows, table)
        more = np.ones_like(table)
        exchange(self, np.zeros((int(more[0].sum()), rows.shape[1])), more)
        return arrived

    monkeypatch.setattr(CommunicatorPeers, "exchange", wasteful)
    assert refuted(capacity=0.7) == {"traffic"}
