"""A frozen model that computes beside training: what of it is on the device, and what comes over the link."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

SLOTS = 2
"""The layer in use, and the one that comes next."""


@dataclass(frozen=True)
class Frozen:
    """An MLP of these widths in numbers of so many bytes; ``streams``: from the host, layer by layer.

    A micro-batch without rows needs no forward, and so no weight.
    """

    widths: tuple[int, ...]
    itemsize: int
    streams: bool

    @property
    def layers(self) -> list[int]:
        """Bytes of each layer's weights, biases included."""
        return [self.itemsize * (inputs + 1) * outputs for inputs, outputs in pairwise(self.widths)]

    @property
    def kept(self) -> int:
        """Bytes of weights that the device keeps."""
        return 0 if self.streams else sum(self.layers)

    def most(self, rows: Sequence[int]) -> int:
        """The most bytes of weights on the device at once: all, or the largest two that are neighbours."""
        if not self.streams or not any(rows):
            return self.kept
        return max(self._in_slots(layer) for layer in range(len(self.layers)))

    def crossing(self, rows: Sequence[int]) -> int:
        """Bytes over the link in an iteration: one model for each micro-batch with rows."""
        return sum(self.layers) * sum(map(bool, rows)) if self.streams else 0

    def growths(self, rows: int) -> Iterator[Counter[str]]:
        """Bytes by kind beside ``kept``, layer after layer of a forward on so many rows, then in the loss.

        A layer has its inputs, but for the first, whose are the caller's, and its outputs. The loss has the
        last outputs, the model's own probabilities and the gradient.
        """
        if not rows:
            return
        outputs = [rows * width * self.itemsize for width in self.widths[1:]]
        for layer, made in enumerate(outputs):
            inputs = outputs[layer - 1] if layer else 0
            weights = self._in_slots(layer) if self.streams else 0
            yield Counter(reference=weights, activation=inputs + made)
        yield Counter(activation=3 * outputs[-1])

    def _in_slots(self, layer: int) -> int:
        """Bytes in the slots while a layer is used; with the last one there is still that before it."""
        first = max(0, min(layer, len(self.layers) - SLOTS))
        return sum(self.layers[first : first + SLOTS])
