"""A fault in the frozen model beside training is planted, and the check that is named must refute it."""

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any

import numpy as np
import pytest

from zero_emulator import near_reference
from zero_emulator.compare import compare
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.frozen_model import FrozenModel, StreamedWeights
from zero_emulator.frozen_reference import FrozenReference
from zero_emulator.judge import faults
from zero_emulator.layout import Array
from zero_emulator.losses import kl_to_reference
from zero_emulator.model import build_mlp, initial_parameters
from zero_emulator.offload import Link, Slot, SlotError, Slots, Transfer
from zero_emulator.run import run
from zero_emulator.strategies import STRATEGIES
from zero_emulator.weight_files import Model

pytestmark = [pytest.mark.parametrize("world_size", [2]), pytest.mark.on_threads]

WIDTHS = (5, 4, 4, 4, 3)
WORDS = {
    "not finite": "finite",
    "of the reference on the device": "residency",
    "of the reference came over": "link",
    " held ": "peak",
    "differs from serial": "serial",
    "first gradient": "gradient",
}
"""By what a fault says: the check that found it."""


@pytest.fixture
def refuted(
    run_ranks: Any, toy: Dataset, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., set[str]]:
    """Train with ZeRO-3 near a frozen model on the host, and which checks refute what came out."""
    monkeypatch.setattr("zero_emulator.compare.STRATEGIES", {"zero3": STRATEGIES["zero3"]})

    def refuted(**chosen: Any) -> set[str]:
        reference = FrozenReference("frozen.npz", WIDTHS, kl=2.0)
        config = RunConfig(**settings | {"optimizer": "sgd", "lr": 0.1, "reference": reference} | chosen)
        layers = build_mlp(WIDTHS)
        frozen = Model(layers, initial_parameters(layers, 9, np.float64))

        def body(comm: Any) -> list[str]:
            run_one = partial(run, dataset=toy, transport=comm.transport, audit_gradients=True, frozen=frozen)
            found = compare(config, toy, comm.transport, run_one=run_one, frozen=frozen)
            (outcome,) = found.outcomes.values()
            partition = config.partition(toy, comm.world_size)
            return [*faults(config, partition, outcome), *found.faults(config)["zero3"]]

        return {check for fault in run_ranks(body)[0] for word, check in WORDS.items() if word in fault}

    return refuted


class LateLink(Link):
    """Copies when the rank would have computed already, if nothing made it wait."""

    def to_device(self, source: Array, target: Array) -> None:
        target.fill(np.nan)
        Event().wait(0.005)
        super().to_device(source, target)


@pytest.mark.parametrize("link", [Link, LateLink])
@pytest.mark.parametrize("more", [{}, {"micro_batches": 2, "clip": 0.05}, {"batch_size": 1}])
def test_without_a_fault_nothing_is_refuted(
    refuted: Any, monkeypatch: Any, link: type[Link], more: dict[str, Any]
) -> None:
    monkeypatch.setattr(near_reference, "Link", link)
    assert refuted(**more) == set()


def test_layers_in_another_order_differ_from_serial(refuted: Any, monkeypatch: Any) -> None:
    init = StreamedWeights.__init__

    def swapped(self: StreamedWeights, weights: Any, *more: Any) -> None:
        init(self, [weights[0], weights[2], weights[1], weights[3]], *more)

    monkeypatch.setattr(StreamedWeights, "__init__", swapped)
    assert refuted() == {"serial", "gradient"}


def test_a_slot_that_is_written_before_its_copy_has_landed_ends_the_run(
    refuted: Any, monkeypatch: Any
) -> None:
    """However quick the copies are."""
    monkeypatch.setattr(Slot, "settle", lambda slot: None)
    with pytest.raises(SlotError, match="and its copy to the device has not been awaited"):
        refuted()


def test_a_slot_that_is_read_before_its_copy_has_landed_is_not_finite(refuted: Any, monkeypatch: Any) -> None:
    wait = Transfer.wait

    def view_at_once(self: Transfer) -> None:
        """The first wait is before the weights are used, the second before the slot is."""
        if not self.__dict__.setdefault("asked", False):
            self.__dict__["asked"] = True
        else:
            wait(self)

    monkeypatch.setattr(near_reference, "Link", LateLink)
    monkeypatch.setattr(Transfer, "wait", view_at_once)
    assert {"finite", "serial", "gradient"} <= refuted()


def test_a_divergence_over_the_local_rows_differs_from_serial(refuted: Any, monkeypatch: Any) -> None:
    def local(outputs: Array, reference: Array, global_count: int, *more: Any) -> Any:
        return kl_to_reference(outputs, reference, len(outputs), *more)

    monkeypatch.setattr(near_reference, "kl_to_reference", local)
    assert refuted() == {"serial", "gradient"}


def test_a_divergence_that_is_left_out_differs_from_serial(refuted: Any, monkeypatch: Any) -> None:
    def weightless(*arguments: Any) -> Any:
        loss, grad = kl_to_reference(*arguments)
        return loss, 0 * grad

    monkeypatch.setattr(near_reference, "kl_to_reference", weightless)
    assert refuted() == {"serial", "gradient"}


def test_a_forward_more_than_there_are_micro_batches_moves_too_much(refuted: Any, monkeypatch: Any) -> None:
    forward = FrozenModel.log_probabilities

    def twice(self: FrozenModel, x: Array) -> Array:
        forward(self, x)
        return forward(self, x)

    monkeypatch.setattr(FrozenModel, "log_probabilities", twice)
    assert refuted() == {"link"}


def test_a_third_slot_is_held_too_much(refuted: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(near_reference, "Slots", partial(Slots, num=3))
    assert refuted() == {"residency", "peak"}


def test_slots_that_are_not_let_go_of_are_held_too_much(refuted: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(Slots, "drain", lambda slots: None)
    assert refuted() == {"peak"}
