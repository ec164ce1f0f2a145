"""Every check earns its trust: a fault is planted, and the check that is named here must refute it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from collectives.communicator import IN_PLACE
from collectives.ledger import LedgerError
from collectives.transports.metered import MeteredTransport
from zero_emulator.compare import Comparison, compare
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.events import event_messages
from zero_emulator.judge import faults
from zero_emulator.layer_params import SHARDED_FROM, LayerParams
from zero_emulator.losses import LOSSES, softmax_cross_entropy
from zero_emulator.run import run
from zero_emulator.strategies.base import Strategy
from zero_emulator.strategies.ddp import DDP
from zero_emulator.strategies.whole_gradients import WholeGradients
from zero_emulator.strategies.zero1 import Zero1
from zero_emulator.strategies.zero2 import Zero2
from zero_emulator.strategies.zero3 import Zero3
from zero_emulator.trainer import Trainer
from zero_emulator.update_parts import SharedMatrix

pytestmark = [pytest.mark.parametrize("world_size", [3]), pytest.mark.on_threads]

Refuted = dict[str, set[str]]
"""By strategy: the checks that fail."""

Plant = Callable[..., None]
"""pytest's monkeypatch.setattr: the fault is gone after the test."""


@pytest.fixture
def refuted(run_ranks: Any, toy: Dataset, settings: dict[str, Any]) -> Callable[..., Refuted]:
    """Train with every strategy, and which checks refute what came out."""

    def refuted(**chosen: Any) -> Refuted:
        config = RunConfig(**settings | {"optimizer": "sgd", "lr": 0.1, "iterations": 3} | chosen)

        def body(comm: Any) -> Comparison:
            run_one = partial(run, dataset=toy, transport=comm.transport, audit_gradients=True, poison=True)
            return compare(config, toy, comm.transport, run_one=run_one)

        found = run_ranks(body)[0]
        return named_checks(found, config, toy)

    return refuted


def named_checks(found: Comparison, config: RunConfig, dataset: Dataset) -> Refuted:
    checks: Refuted = {name: set() for name in found.outcomes}
    for name, outcome in found.outcomes.items():
        partition = config.partition(dataset, len(outcome.reports))
        for fault in faults(outcome.config, partition, outcome):
            checks[name].update(check for word, check in WORDS.items() if word in fault)
    for name, apart in found.faults(config).items():
        checks[name].update(check for word, check in WORDS.items() for fault in apart if word in fault)
    return checks


WORDS = {
    "counted": "traffic",
    "exchanged": "traffic",
    "keeps": "persistent",
    " held ": "peak",
    "different parameters": "digest",
    "different views": "views",
    "differs from serial": "serial",
    "first gradient": "gradient",
    " from iteration ": "bits",
}
"""By what a fault says: the check that found it."""

NOTHING: Refuted = {"ddp": set(), "zero1": set(), "zero2": set(), "zero3": set()}


@pytest.mark.parametrize("more", [{}, {"micro_batches": 2}, {"clip": 0.05}, {"momentum": 0.9}])
def test_without_a_fault_nothing_is_refuted(refuted: Any, more: dict[str, Any]) -> None:
    assert refuted(**more) == NOTHING


def test_a_mean_over_the_local_rows_differs_from_serial(refuted: Any, monkeypatch: Any) -> None:
    def local_mean(outputs: Any, targets: Any, global_count: int) -> Any:
        return softmax_cross_entropy(outputs, targets, max(1, len(outputs)))

    monkeypatch.setitem(LOSSES, "cross_entropy", local_mean)
    assert all("serial" in checks for checks in refuted().values())


def test_micro_batches_that_are_divided_by_twice_differ_from_serial(refuted: Any, monkeypatch: Any) -> None:
    loss = Trainer._loss

    def divided(self: Trainer, *arguments: Any) -> Any:
        share, grad = loss(self, *arguments)
        grad /= self.strategy.options.micro_batches
        return share, grad

    monkeypatch.setattr(Trainer, "_loss", divided)
    assert all("serial" in checks for checks in refuted(micro_batches=2).values())


def test_a_gradient_that_adds_to_the_last_iterations_differs(refuted: Any, monkeypatch: Any) -> None:
    def never_replaced(self: Strategy, params: LayerParams, replaces: bool) -> Any:
        return self.buffers.take("buffer", params.size, self.precision.compute)

    def added(self: WholeGradients, layer: int, micro_batch: int) -> None:
        accumulate(self, layer, 1)

    accumulate = WholeGradients.accumulate
    monkeypatch.setattr(WholeGradients, "accumulate", added)
    for kind in (DDP, Zero1):
        monkeypatch.setattr(kind, "new_gradient", never_replaced)
    assert refuted() == {
        "ddp": {"serial", "peak"},
        "zero1": {"serial", "peak", "bits"},  # it adds to what the reduce-scatter left of the others' blocks
        "zero2": {"bits"},  # they are held against the first strategy, which is at fault
        "zero3": {"bits"},
    }


def test_a_gradient_shard_that_is_never_replaced_differs(refuted: Any, monkeypatch: Any) -> None:
    after_backward = Zero2.after_backward

    def added(self: Zero2, layer: int, micro_batch: int) -> None:
        after_backward(self, layer, 1)

    monkeypatch.setattr(Zero2, "after_backward", added)
    differ = {"serial", "bits", "peak"}  # what is added needs a buffer to come in
    assert refuted() == NOTHING | {"zero2": differ, "zero3": differ}


def test_a_view_that_is_used_after_its_release_is_poisoned(refuted: Any, monkeypatch: Any) -> None:
    view, forward_views = Zero3.view, {}

    def first_seen(self: Zero3, layer: int) -> Any:
        fresh = view(self, layer)
        if self.comm.label.phase == "forward":
            forward_views[self.comm.rank, layer] = fresh
        return forward_views[self.comm.rank, layer]

    monkeypatch.setattr(Zero3, "view", first_seen)
    assert {"serial", "bits", "peak"} <= refuted()["zero3"]


def skip_in_silence(monkeypatch: Any, kind: type[Strategy]) -> None:
    """Rank 1 does not update layer 0 in iteration 2, and its version says that it did."""
    update_layers = kind.update_layers

    def skipping(self: Strategy, scale: float) -> None:
        layers = self.layers
        if self.comm.rank == 1 and self.updates == 2:
            self.layers = layers[1:]
            layers[0].version += 1
        update_layers(self, scale)
        self.layers = layers

    monkeypatch.setattr(kind, "update_layers", skipping)


def test_a_rank_that_skips_an_update_and_denies_it_has_other_parameters(
    refuted: Any, monkeypatch: Any
) -> None:
    skip_in_silence(monkeypatch, DDP)
    assert {"digest"} <= refuted()["ddp"]


@pytest.mark.parametrize("kind", [Zero1, Zero2, Zero3])
def test_an_owner_that_skips_an_update_and_denies_it_differs_from_the_other_strategies(
    refuted: Any, monkeypatch: Any, kind: type[Strategy]
) -> None:
    """All ranks then gather the same old block: neither digests nor versions can tell."""
    skip_in_silence(monkeypatch, kind)
    checks = refuted()
    assert checks[kind.name] == {"bits", "serial"}


def test_an_all_reduce_in_place_of_a_reduce_scatter_sends_too_much(refuted: Any, monkeypatch: Any) -> None:
    def reduced_everywhere(self: Zero1, layer: int, micro_batch: int) -> None:
        self.accumulate(layer, micro_batch)
        params = self.layers[layer]
        self.works.append(self.comm.all_reduce(IN_PLACE, params.grad, sizes=params.sizes))

    monkeypatch.setattr(Zero1, "after_backward", reduced_everywhere)
    assert refuted() == NOTHING | {"zero1": {"traffic"}}


def test_a_gather_more_than_claimed_is_too_much(refuted: Any, monkeypatch: Any) -> None:
    unshard = Zero3.unshard

    def twice(self: Zero3) -> None:
        unshard(self)
        again = self.start_gather(0)
        again.work.wait()
        self.buffers.give_back(again.view)

    monkeypatch.setattr(Zero3, "unshard", twice)
    assert refuted() == NOTHING | {"zero3": {"traffic"}}


def test_bytes_that_are_not_counted_are_missed(refuted: Any, monkeypatch: Any) -> None:
    drop_sends_of_rank_1(monkeypatch)
    assert all(checks == {"traffic"} for checks in refuted().values())


def test_bytes_that_one_end_does_not_count_are_missed_by_the_other(train: Any, monkeypatch: Any) -> None:
    assert event_messages(train("zero2", keep_events=True))
    drop_sends_of_rank_1(monkeypatch)
    with pytest.raises(LedgerError, match="which counted none sent"):
        event_messages(train("zero2", keep_events=True))


def drop_sends_of_rank_1(monkeypatch: Any) -> None:
    post = MeteredTransport.post

    def forgetful(self: MeteredTransport, sends: Any, recvs: Any, tag: int, origin: Any) -> Any:
        metered = post(self, sends, recvs, tag, origin)
        if self.rank == 1 and origin.step == 1:
            metered.entry.sends.clear()
        return metered

    monkeypatch.setattr(MeteredTransport, "post", forgetful)


def test_muon_on_a_part_of_a_matrix_is_another_update(refuted: Any, monkeypatch: Any) -> None:
    """Each rank orthogonalizes what it has of the matrix, and fetches nothing."""

    def alone(self: SharedMatrix, params: Any, grads: Any, iteration: int, scale: float, _: Any) -> None:
        corrected = np.empty(params[self.place].size)
        self.rule.correct(grads[self.place], self.state, scale, out=corrected)
        row = replace(self.rule, shape=(1, corrected.size))
        row.apply(params[self.place], corrected, slice(0, corrected.size))

    monkeypatch.setattr(SharedMatrix, "update", alone)
    checks = refuted(optimizer="muon", lr=0.01)
    assert checks["ddp"] == set()
    assert all({"traffic", "serial"} <= checks[name] for name in ("zero1", "zero2", "zero3"))
    assert all("bits" in checks[name] for name in ("zero1", "zero2", "zero3"))


@pytest.mark.parametrize("kind", [Zero1, Zero2, Zero3])
def test_full_moments_on_every_rank_are_kept_too_much(
    refuted: Any, monkeypatch: Any, kind: type[Strategy]
) -> None:
    plan = LayerParams.__init__

    def with_full_moments(self: LayerParams, initial: Any, *more: Any) -> None:
        plan(self, initial, *more)
        if self.stage == kind.stage:
            for part in self.parts:
                whole = {name: self.meter.zeros("moment", initial.size, np.float64) for name in part.state}
                part.state = {name: moment[self.own] for name, moment in whole.items()}

    monkeypatch.setattr(LayerParams, "__init__", with_full_moments)
    assert refuted(momentum=0.9) == NOTHING | {kind.name: {"persistent", "peak"}}


def test_a_shard_that_is_a_view_of_the_full_weight_is_kept_too_much(refuted: Any, monkeypatch: Any) -> None:
    plan = LayerParams.__init__

    def without_a_copy(self: LayerParams, initial: Any, *more: Any) -> None:
        plan(self, initial, *more)
        if self.stage == Zero3.stage:
            self.weight = self.meter.track("weight", initial.copy())[self.own]

    monkeypatch.setattr(LayerParams, "__init__", without_a_copy)
    assert refuted() == NOTHING | {"zero3": {"persistent", "peak"}}


def test_a_norm_of_the_local_gradients_alone_differs(refuted: Any, monkeypatch: Any) -> None:
    def local(comm: Any, layers: Any) -> float:
        return float(sum(np.sum(params.own_grad**2) for params in layers))

    monkeypatch.setattr("zero_emulator.strategies.base.global_square_sum", local)
    checks = refuted(clip=0.05)
    assert all("serial" in found for found in checks.values())
    assert "digest" in checks["ddp"]


@pytest.mark.parametrize("part", ["sent", "received"])
def test_a_byte_more_is_refuted_with_its_numbers(train: Any, toy: Dataset, part: str) -> None:
    outcome = train("zero3")
    partition = outcome.config.partition(toy, 3)
    assert faults(outcome.config, partition, outcome) == []
    flow = getattr(outcome.reports[2].traffic.by_iteration[2], part)
    flow["forward", "all_gather"] += 1
    (fault,) = faults(outcome.config, partition, outcome)
    assert fault.startswith("iteration 2, rank 2: counted forward all_gather ")


@pytest.mark.parametrize("kind", ["training", "control", "audit"])
def test_bytes_that_only_one_end_counted_are_refuted_by_kind(train: Any, toy: Dataset, kind: Any) -> None:
    outcome = train("zero3")
    partition = outcome.config.partition(toy, 3)
    outcome.reports[0].traffic.sent_to[1, kind] -= 8
    (fault,) = faults(outcome.config, partition, outcome)
    assert fault.startswith("rank 0 counted ")
    assert f"{kind} bytes sent to rank 1, which counted" in fault


@pytest.mark.parametrize("kind", ["control", "audit"])
def test_a_gather_that_calls_itself_something_else_is_too_much(
    refuted: Any, monkeypatch: Any, kind: Any
) -> None:
    unshard = Zero3.unshard

    def twice(self: Zero3) -> None:
        unshard(self)
        with self.labelled(0, kind=kind):
            again = self.start_gather(0)
        again.work.wait()
        self.buffers.give_back(again.view)

    monkeypatch.setattr(Zero3, "unshard", twice)
    assert refuted() == NOTHING | {"zero3": {"traffic"}}


def test_a_collective_before_the_first_iteration_is_too_much(refuted: Any, monkeypatch: Any) -> None:
    init = Zero1.__init__

    def greeting(self: Zero1, *arguments: Any) -> None:
        init(self, *arguments)
        self.comm.all_reduce(IN_PLACE, np.zeros(8)).wait()

    monkeypatch.setattr(Zero1, "__init__", greeting)
    assert refuted() == NOTHING | {"zero1": {"traffic"}}


def test_numbers_that_go_past_the_ledger_are_refuted(refuted: Any, monkeypatch: Any) -> None:
    finish = Zero1.finish_iteration

    def smuggling(self: Zero1, iteration: int) -> None:
        self.comm.exchange(self.layers[0].grad)
        finish(self, iteration)

    monkeypatch.setattr(Zero1, "finish_iteration", smuggling)
    assert refuted() == NOTHING | {"zero1": {"traffic"}}


def test_a_full_copy_that_hides_is_found(refuted: Any, monkeypatch: Any) -> None:
    finish = Zero3.finish_iteration

    def hoarding(self: Zero3, iteration: int) -> None:
        finish(self, iteration)
        self.buffers.hoard = [{"somewhere": np.zeros(3)}]  # type: ignore[attr-defined]

    monkeypatch.setattr(Zero3, "finish_iteration", hoarding)
    assert refuted() == NOTHING | {"zero3": {"persistent"}}


def test_moments_that_are_kept_whole_are_refuted(refuted: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(SHARDED_FROM, "moment", 2)

    def only_counted(self: LayerParams, *arguments: Any) -> None:
        self.version += 1

    monkeypatch.setattr(LayerParams, "update", only_counted)
    assert "persistent" in refuted(optimizer="adam")["zero1"]


def test_a_backward_that_uses_another_view_than_the_forward_is_refuted(
    refuted: Any, monkeypatch: Any
) -> None:
    view = Zero3.view

    def larger(self: Zero3, layer: int) -> Any:
        return view(self, layer) * (1.5 if self.comm.label.phase == "backward" else 1.0)

    monkeypatch.setattr(Zero3, "view", larger)
    assert "views" in refuted()["zero3"]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_gradient_that_is_too_large_by_a_factor_is_refuted_even_under_adam(
    refuted: Any, monkeypatch: Any, optimizer: str
) -> None:
    loss = Trainer._loss

    def not_averaged(self: Trainer, *arguments: Any) -> Any:
        share, grad = loss(self, *arguments)
        grad *= self.comm.world_size
        return share, grad

    monkeypatch.setattr(Trainer, "_loss", not_averaged)
    assert all("gradient" in checks for checks in refuted(optimizer=optimizer, lr=1e-3).values())
