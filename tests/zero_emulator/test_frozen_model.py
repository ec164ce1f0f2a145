"""A frozen model: the same bits from the device and the host, exact bytes, and limits to the byte."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from threading import Event
from typing import Any

import numpy as np
import pytest

from zero_emulator.frozen_model import FrozenModel, ResidentWeights, StreamedWeights, Weights
from zero_emulator.layout import Array
from zero_emulator.losses import log_softmax
from zero_emulator.meter import DeviceMemoryError, HostMemoryError, Meter
from zero_emulator.model import build_mlp, initial_parameters
from zero_emulator.offload import Copier, Link, Slot, SlotError, Slots, Transfers

SIZES = (5, 16, 12, 16, 12, 3)
LAYERS = build_mlp(SIZES)
WEIGHTS = initial_parameters(LAYERS, seed=1, dtype=np.float32)
MODEL_BYTES = sum(array.nbytes for array in WEIGHTS)
ROWS = 2
X = np.random.default_rng(2).standard_normal((ROWS, 5)).astype(np.float32)

# What a forward holds besides the weights: a layer's inputs, but for the caller's own x, and its outputs.
ACTIVATIONS = [4 * ROWS * (inputs + outputs) for inputs, outputs in ((0, 16), *pairwise(SIZES[1:]))]
TWO_LAYERS = [a.nbytes + b.nbytes for a, b in (*pairwise(WEIGHTS), WEIGHTS[-2:])]
PEAK = max(sum(both) for both in zip(TWO_LAYERS, ACTIVATIONS, strict=True))


class LateLink(Link):
    """Copies when the rank would have computed already, if nothing made it wait."""

    def to_device(self, source: Array, target: Array) -> None:
        target.fill(np.nan)
        Event().wait(0.005)
        super().to_device(source, target)


@pytest.fixture
def transfers() -> Iterator[Callable[..., Transfers]]:
    copiers = []

    def transfers(link: Link | None = None) -> Transfers:
        copiers.append(Copier())
        return Transfers(link or Link(), copiers[-1])

    yield transfers
    for copier in copiers:
        copier.close()


def frozen(device: Meter, weights: Weights) -> FrozenModel:
    return FrozenModel(LAYERS, weights, partial(device.empty, "activation"))


def streamed(device: Meter, transfers: Transfers, num: int = 2) -> FrozenModel:
    slots = Slots(partial(device.empty, "slot"), num)
    return frozen(device, StreamedWeights(WEIGHTS, Meter(place="host"), transfers, slots))


def resident(device: Meter) -> FrozenModel:
    return frozen(device, ResidentWeights(WEIGHTS, device))


def test_log_probabilities_are_those_of_a_plain_forward() -> None:
    x = X
    for layer, params in zip(LAYERS, WEIGHTS, strict=True):
        x, _ = layer.forward(params, x)
    model = resident(Meter())
    np.testing.assert_array_equal(model.log_probabilities(X), log_softmax(x))
    assert model.log_probabilities(X[:0]).shape == (0, 3)


@pytest.mark.parametrize("link", [Link, LateLink])
@pytest.mark.parametrize("num", [1, 2, 3, 9])
def test_streamed_weights_give_the_same_bits_however_late_the_copies(
    num: int, link: type[Link], transfers: Any
) -> None:
    wanted = resident(Meter()).log_probabilities(X)
    model = streamed(Meter(), transfers(link()), num)
    for _ in range(2):
        np.testing.assert_array_equal(model.log_probabilities(X), wanted)


def test_a_forward_takes_one_model_over_the_link_and_leaves_the_device_empty(transfers: Any) -> None:
    device, streams = Meter(), transfers(Link(bandwidth=1e9))
    model = streamed(device, streams)
    for forward in (1, 2, 3):
        outputs = model.log_probabilities(X)
        assert device.alive == {"slot": 0, "activation": outputs.nbytes}
        assert (streams.link.to_device_bytes, streams.link.to_host_bytes) == (forward * MODEL_BYTES, 0)
        del outputs
    copies = [(copy.name, copy.num_bytes) for copy in streams.link.log]
    assert copies == [(f"frozen layer {at}", array.nbytes) for at, array in enumerate(WEIGHTS)] * 3


def test_a_layer_is_on_its_way_before_the_one_before_it_computes(transfers: Any) -> None:
    order: list[str] = []

    class Noting(Transfers):
        def to_device(self, name: str, source: Array, target: Array) -> Any:
            order.append(f"start {name}")
            return super().to_device(name, source, target)

    model = streamed(Meter(), Noting(Link(), transfers().copier))
    with model.weights.in_order() as view:
        for layer in range(len(LAYERS)):
            assert view(layer).size
            order.append(f"use {layer}")
    starts = [f"start frozen layer {layer}" for layer in range(5)]
    assert order == [
        *(*starts[:2], "use 0"),
        *(starts[2], "use 1"),
        *(starts[3], "use 2"),
        *(starts[4], "use 3"),
        "use 4",
    ]


def test_it_streams_where_two_layers_fit_and_the_model_does_not(transfers: Any) -> None:
    assert PEAK < MODEL_BYTES
    device = Meter(limit=PEAK)
    streamed(device, transfers()).log_probabilities(X)
    assert device.peak.total == PEAK
    with pytest.raises(DeviceMemoryError, match=r"bytes of reference do not fit .* --device-memory"):
        resident(Meter(limit=PEAK))


def test_a_byte_less_than_two_layers_is_too_little_and_one_layer_is_far_too_little(transfers: Any) -> None:
    for limit in (PEAK - 1, PEAK - max(array.nbytes for array in WEIGHTS)):
        device = Meter(limit)
        model = streamed(device, transfers())
        with pytest.raises(DeviceMemoryError):
            model.log_probabilities(X)
        assert not device.alive["slot"], "nothing is left in flight"


def test_one_slot_makes_do_with_one_layer(transfers: Any) -> None:
    device = Meter()
    streamed(device, transfers(), num=1).log_probabilities(X)
    assert device.peak.by_kind["slot"] == max(array.nbytes for array in WEIGHTS)


def test_the_weights_take_room_on_the_host(transfers: Any) -> None:
    slots = Slots(np.empty)
    host = Meter(MODEL_BYTES, place="host")
    kept = StreamedWeights(WEIGHTS, host, transfers(), slots)
    assert host.alive == {"reference": MODEL_BYTES}
    with pytest.raises(HostMemoryError, match=f"of the {MODEL_BYTES - 1} of --host-memory are taken"):
        StreamedWeights(WEIGHTS, Meter(MODEL_BYTES - 1, place="host"), transfers(), slots)
    del kept


@pytest.mark.parametrize("link", [Link, LateLink])
def test_a_turn_that_is_not_settled_fails_however_quick_the_copies(
    link: type[Link], transfers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Slot, "settle", lambda slot: None)
    with pytest.raises(SlotError, match="holds frozen layer 2, and its copy to the device has not been"):
        streamed(Meter(), transfers(link())).log_probabilities(X)


def test_a_copy_that_fails_ends_the_forward(transfers: Any) -> None:
    class Broken(Link):
        def to_device(self, source: Array, target: Array) -> None:
            raise OSError("the link is down")

    with pytest.raises(OSError, match="the link is down"):
        streamed(Meter(), transfers(Broken())).log_probabilities(X)
