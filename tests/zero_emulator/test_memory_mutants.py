"""Memory that is held and should not be, or should be and is not: the judge must say so, with the numbers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from zero_emulator.data import Dataset
from zero_emulator.judge import faults
from zero_emulator.layer_params import SHARDED_FROM, LayerParams
from zero_emulator.strategies.base import Strategy
from zero_emulator.strategies.zero2 import Zero2
from zero_emulator.strategies.zero3 import Zero3
from zero_emulator.trainer import Trainer

pytestmark = [pytest.mark.parametrize("world_size", [3]), pytest.mark.on_threads]


@pytest.fixture
def found(train: Any, toy: Dataset) -> Any:
    """The faults of a run on every rank."""

    def found(strategy: str, **chosen: Any) -> list[str]:
        outcome = train(strategy, **{"dtype": None} | chosen)
        return faults(outcome.config, outcome.config.partition(toy, len(outcome.reports)), outcome)

    return found


def held(fault: str) -> tuple[int, int]:
    """The bytes in "rank 1 held 1200 bytes in ...; expected 1000 bytes in ..."."""
    assert " held " in fault, fault
    return tuple(int(part.split()[0]) for part in fault.partition(" held ")[2].split("; expected "))  # type: ignore[return-value]


def only_counted(self: LayerParams, *arguments: Any) -> None:
    self.version += 1


def only_peaks(found: list[str]) -> list[tuple[int, int]]:
    assert len(found) == 3, found
    return [held(fault) for fault in found]


def test_a_moment_that_is_kept_full_on_every_rank_is_held_too_much(found: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(SHARDED_FROM, "moment", 2)
    monkeypatch.setattr(LayerParams, "update", only_counted)
    assert found("zero2") == []
    too_much = found("zero1")
    assert sum("keeps" in fault for fault in too_much) == 3
    assert all(most > expected for most, expected in map(held, too_much[3:]))


def test_a_view_that_is_not_freed_is_held_too_much(found: Any, monkeypatch: Any) -> None:
    reshard = Zero3.reshard

    def hoarding(self: Zero3) -> None:
        self.last_view = self.gathered[self.visits[self.at].gather].view  # type: ignore[attr-defined]
        reshard(self)

    def tidied(self: Zero3, iteration: int) -> None:
        del self.last_view  # type: ignore[attr-defined]
        finish(self, iteration)

    finish = Zero3.finish_iteration
    monkeypatch.setattr(Zero3, "reshard", hoarding)
    monkeypatch.setattr(Zero3, "finish_iteration", tidied)
    assert all(most > expected for most, expected in only_peaks(found("zero3")))


def test_a_view_of_a_view_that_is_not_freed_is_held_too_much(found: Any, monkeypatch: Any) -> None:
    """A single number of it keeps all of its memory."""
    view = Strategy.view

    def watched(self: Strategy, layer: int) -> Any:
        full = view(self, layer)
        self.__dict__.setdefault("bias", full[-1:])
        return full

    finish = Zero3.finish_iteration
    monkeypatch.setattr(Strategy, "view", watched)
    monkeypatch.setattr(
        Zero3, "finish_iteration", lambda self, *at: (delattr(self, "bias"), finish(self, *at))
    )
    assert all(most > expected for most, expected in only_peaks(found("zero3")))


def test_gradients_that_are_kept_beside_their_shards_are_held_too_much(found: Any, monkeypatch: Any) -> None:
    take, finish = Zero2.take_gradient, Zero2.finish_iteration

    def keeping(self: Zero2) -> Any:
        gradient = take(self)
        self.__dict__.setdefault("kept", []).append(gradient)
        return gradient

    monkeypatch.setattr(Zero2, "take_gradient", keeping)
    monkeypatch.setattr(Zero2, "finish_iteration", lambda self, *at: (self.kept.clear(), finish(self, *at)))
    assert all(most > expected for most, expected in only_peaks(found("zero2")))


def test_weights_without_a_master_are_held_too_little(found: Any, monkeypatch: Any) -> None:
    plan = LayerParams.__init__

    def without(self: LayerParams, *arguments: Any) -> None:
        *others, precision, parts, meter, host = arguments
        plan(self, *others, replace(precision, master=None), parts, meter, host)

    monkeypatch.setattr(LayerParams, "__init__", without)
    monkeypatch.setattr(LayerParams, "update", only_counted)
    too_little = found("zero1", precision="bf16")
    kept = [fault.partition(", expected ") for fault in too_little[:3]]
    assert all("master" in expected and "master" not in keeps for keeps, _, expected in kept)
    assert all(most < expected for most, expected in map(held, too_little[3:]))


@pytest.mark.parametrize("strategy", ["ddp", "zero3"])
def test_activations_that_outlive_their_backward_are_held_too_much(
    found: Any, monkeypatch: Any, strategy: str
) -> None:
    backward, finish = Trainer._backward_layer, Strategy.advance

    def keeping(self: Trainer, index: int, micro_batch: int, saved: Any, grad: Any) -> Any:
        self.strategy.__dict__.setdefault("tape", []).append(grad)
        return backward(self, index, micro_batch, saved, grad)

    def tidied(self: Strategy) -> None:
        self.tape.clear()  # type: ignore[attr-defined]
        finish(self)

    monkeypatch.setattr(Trainer, "_backward_layer", keeping)
    monkeypatch.setattr(Strategy, "advance", tidied)
    assert all(most > expected for most, expected in only_peaks(found(strategy)))


def test_gradients_that_are_not_counted_by_the_meter_are_missed(found: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(
        "zero_emulator.buffers.Buffers.take",
        lambda self, kind, size, dtype: np.empty(size, "float32"),
    )
    assert all(most < expected for most, expected in only_peaks(found("zero2")))
