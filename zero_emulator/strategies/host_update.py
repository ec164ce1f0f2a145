"""The update of layers some of whose state is on the host: what it needs is brought to where it is made."""

from collections import deque
from collections.abc import Iterator, Sequence

from zero_emulator.host import Host
from zero_emulator.layer_params import LayerParams
from zero_emulator.layout import Array
from zero_emulator.offload import Slots, Transfer


def gradients_for(
    host: Host, layers: Sequence[LayerParams], slots: Slots
) -> Iterator[tuple[int, Array | None]]:
    """Each layer with a copy of its own gradient where the update is made; None if it is there anyway."""
    if host.updates == ("gradient" in host.kinds):
        return ((layer, None) for layer in range(len(layers)))
    if host.updates:
        return _to_host(host, layers)
    return _through_slots(host, layers, slots)


def _to_host(host: Host, layers: Sequence[LayerParams]) -> Iterator[tuple[int, Array]]:
    for layer, params in enumerate(layers):
        own = params.updating_grad
        copy = host.meter.empty("buffer", own.size, own.dtype)
        host.transfers.to_host(f"the gradient of own layer {layer}", own, copy).wait()
        yield layer, copy
        del copy  # before the next one is made


def _through_slots(host: Host, layers: Sequence[LayerParams], slots: Slots) -> Iterator[tuple[int, Array]]:
    """Through two slots: while one is used the next is filled."""
    under_way: deque[tuple[Transfer, Array]] = deque()
    for layer in range(len(layers) + 1):
        if layer < len(layers):
            own = layers[layer].updating_grad
            slot = slots.next(name := f"the gradient of own layer {layer}, for its update")
            memory = slot.write(own.size, own.dtype)
            transfer = host.transfers.to_device(name, own, memory)
            slot.used_by("its copy to the device", transfer.wait)
            under_way.append((transfer, memory))
            del memory  # or it would outlive its slot
        if layer > 0:
            transfer, before = under_way.popleft()
            transfer.wait()
            yield layer - 1, before
            del before
    slots.drain()


class WeightsBack:
    """Brings weights that were updated on the host to the device; nothing where they were updated there."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._under_way: list[tuple[Transfer, Array]] = []

    def send(self, layer: int, params: LayerParams) -> None:
        if not self.host.updates:
            return
        assert params.master is not None, "updates on the host have a master there"
        target, source = params.updating_weight, params.master
        if source.dtype != target.dtype:
            source = self.host.meter.empty("buffer", target.size, target.dtype)
            source[...] = params.master
        transfer = self.host.transfers.to_device(f"the weight of own layer {layer}", source, target)
        self._under_way.append((transfer, source))

    def finish(self) -> None:
        while self._under_way:
            transfer, _ = self._under_way.pop(0)
            transfer.wait()
