"""Faults that only a grid of ranks can have: each is planted, and the check that is named must refute it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from collectives.call_check import CallMismatchError
from collectives.communicator import IN_PLACE
from collectives.point_to_point import MessageMismatchError
from zero_emulator.data import Dataset
from zero_emulator.differences import largest_difference
from zero_emulator.judge import faults
from zero_emulator.layout import Array
from zero_emulator.neighbours import Neighbours
from zero_emulator.pipeline import Backward, Send
from zero_emulator.reference import serial_run
from zero_emulator.strategies import Strategy, VersionError
from zero_emulator.strategies.ddp import DDP
from zero_emulator.trainer import Trainer

pytestmark = [pytest.mark.parametrize("world_size", [4]), pytest.mark.on_threads]

PIPELINE = {"pipeline": 2, "batch_size": 8, "micro_batches": 2, "schedule": "gpipe"}
"""2 ranks a stage, each with 2 rows of each micro-batch."""

HYBRID = {"shard_size": 2, "batch_size": 8}

WORDS = {"counted": "traffic", "different parameters": "digest", "still holds": "leak"}
"""By what a fault says: the check that found it."""


@pytest.fixture
def refuted(train: Any, toy: Dataset) -> Callable[..., set[str]]:
    """Train with one strategy, and which checks refute what came out."""

    def refuted(strategy: str, **chosen: Any) -> set[str]:
        outcome = train(strategy, **{"hidden": (4,), "optimizer": "sgd", "lr": 0.1} | chosen)
        found = faults(outcome.config, outcome.config.partition(toy, 4), outcome)
        checks = {check for fault in found for word, check in WORDS.items() if word in fault}
        assert len(found) == sum(any(word in fault for word in WORDS) for fault in found)
        serial = serial_run(outcome.config, toy, 4).weights
        return checks | ({"serial"} if largest_difference(outcome.weights, serial) > 1e-12 else set())

    return refuted


@pytest.mark.parametrize(("strategy", "settings_"), [("ddp", PIPELINE), ("zero2", HYBRID)])
def test_without_a_fault_nothing_is_refuted(refuted: Any, strategy: str, settings_: dict[str, Any]) -> None:
    assert refuted(strategy, **settings_) == set()


def reduce_over_the_world(monkeypatch: Any) -> None:
    def reduce(self: DDP, layer: int) -> None:
        self.works.append(self.comm.all_reduce(IN_PLACE, self.layers[layer].summed_grad))

    monkeypatch.setattr(DDP, "reduce", reduce)


def test_stages_that_reduce_over_the_world_do_not_fit_together(refuted: Any, monkeypatch: Any) -> None:
    reduce_over_the_world(monkeypatch)
    with pytest.raises(CallMismatchError, match="differs between ranks"):
        refuted("ddp", **PIPELINE)


def test_stages_that_reduce_over_the_world_and_fit_send_too_much_and_differ_from_serial(
    refuted: Any, monkeypatch: Any
) -> None:
    reduce_over_the_world(monkeypatch)
    alike = {"hidden": (1,)}  # 5 x 1 + 1 and 1 x 3 + 3 parameters
    assert refuted("ddp", **PIPELINE | alike) == {"traffic", "serial"}


def swap_activations(monkeypatch: Any, *, renamed: bool) -> None:
    """The first two activations of an iteration change places; ``renamed``: and take each other's names."""
    send, first = Neighbours.send, {}

    def swapped(self: Neighbours, message: Send, iteration: int, array: Array) -> None:
        if message.what == "gradient":
            send(self, message, iteration, array)
        elif message.micro_batch == 0:
            first[self] = message, array
        else:
            early, held = first.pop(self)
            names = (early, message) if renamed else (message, early)
            for name, one in zip(names, (array, held), strict=True):
                send(self, name, iteration, one)

    monkeypatch.setattr(Neighbours, "send", swapped)


def test_activations_that_change_places_are_told_by_their_names(refuted: Any, monkeypatch: Any) -> None:
    swap_activations(monkeypatch, renamed=False)
    with pytest.raises(MessageMismatchError, match=r"micro-batch 0 .* which sent .* micro-batch 1"):
        refuted("zero3", **PIPELINE)


def test_activations_under_each_others_names_differ_from_serial(refuted: Any, monkeypatch: Any) -> None:
    """They are of one size, so no name and no byte tells."""
    swap_activations(monkeypatch, renamed=True)
    assert refuted("zero3", **PIPELINE) == {"serial"}


@pytest.mark.parametrize("victims", [(3,), (1, 3)], ids=["one stage", "both stages"])
def test_rows_of_another_place_differ_from_serial(
    refuted: Any, monkeypatch: Any, victims: tuple[int, ...]
) -> None:
    """As many rows, so no byte tells: the last stage has the targets of others, or rows count twice."""
    init = Trainer.__init__

    def misplaced(self: Trainer, *arguments: Any) -> None:
        init(self, *arguments)
        if self.comm.rank in victims:
            self.share = replace(self.share, stage_position=0)

    monkeypatch.setattr(Trainer, "__init__", misplaced)
    assert refuted("zero1", **PIPELINE) == {"serial"}


@pytest.mark.parametrize("strategy", ["zero1", "zero2", "zero3"])
def test_twins_that_are_not_reduced_part_ways_and_send_too_little(
    refuted: Any, monkeypatch: Any, strategy: str
) -> None:
    monkeypatch.setattr(Strategy, "reduce_over_twins", lambda self: None)
    assert refuted(strategy, **HYBRID) == {"traffic", "digest", "serial"}


def test_a_shard_groups_gradient_that_is_summed_twice_differs_from_serial(
    refuted: Any, monkeypatch: Any
) -> None:
    """Twins agree on what is wrong, so no digest tells."""
    reduce_over_twins = Strategy.reduce_over_twins

    def doubled(self: Strategy) -> None:
        for (_, _, twins), params in zip(self.groups, self.layers, strict=True):
            assert twins is not None
            if twins.rank == 0:
                params.own_grad[...] *= 2
        reduce_over_twins(self)

    monkeypatch.setattr(Strategy, "reduce_over_twins", doubled)
    assert refuted("zero2", **HYBRID) == {"serial"}


def test_twins_that_are_reduced_twice_send_too_much_and_differ_from_serial(
    refuted: Any, monkeypatch: Any
) -> None:
    reduce_over_twins = Strategy.reduce_over_twins

    def twice(self: Strategy) -> None:
        reduce_over_twins(self)
        reduce_over_twins(self)

    monkeypatch.setattr(Strategy, "reduce_over_twins", twice)
    assert refuted("zero3", **HYBRID) == {"traffic", "serial"}


def test_versions_that_one_stage_does_not_tell_are_missed_in_it(refuted: Any, monkeypatch: Any) -> None:
    advance = Strategy.advance

    def silent(self: Strategy) -> None:
        if self.share.rank < 2:
            advance(self)

    monkeypatch.setattr(Strategy, "advance", silent)
    with pytest.raises(VersionError, match=r"versions 0, 0 .* after 1 updates it needs version 1 of all"):
        refuted("zero3", **PIPELINE)


def test_activations_that_outlive_their_iteration_are_told_of_where_no_peak_is_known(
    refuted: Any, monkeypatch: Any
) -> None:
    backward, kept = Trainer._backward, []

    def keeping(self: Trainer, action: Backward) -> None:
        if self.comm.rank == 3:
            kept.append(self._passes[action])
        backward(self, action)

    monkeypatch.setattr(Trainer, "_backward", keeping)
    assert refuted("zero2", **PIPELINE) == {"leak"}
