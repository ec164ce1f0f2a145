"""Every moment of an iteration at which a rank's memory has grown, and what is held then beside what is kept.

While a layer of S parameters is in use on n rows that is:

    view           of each layer that is in use, prefetched, or kept for its backward (ZeRO-3)
    compute copy   of the layer in use, if its weights are of another dtype
    buffer         its full gradient, if that is not kept, and casts of it; what reductions hold in flight;
                   all layers where updated weights are cast for the wire; what gathers in flight work in,
                   which is nothing for a ring
    scratch        of the optimizer
    activation     outputs of all layers up to this one, the gradient by its own, once more before its ReLU,
                   and the gradient by its inputs
    input          n rows and their targets

A frozen model beside, if there is one, computes before the loss: see its growths.

Source: S. Rajbhandari et al., ZeRO, SC 2020, for what is kept and what passes ("residual states").
"""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from collectives.blocks import even_cut
from zero_emulator.precision import ITEMSIZE, Precision
from zero_emulator.theory.claimed import is_sharded
from zero_emulator.theory.frozen import Frozen
from zero_emulator.theory.overhead import SCALAR_BYTES
from zero_emulator.theory.passing import compute_copy, full_gradient, gradient_casts, reduction
from zero_emulator.theory.rings import Scratch, Sizes, ring_scratch
from zero_emulator.theory.training import KeepViews
from zero_emulator.theory.views import Gather, gathers, views_held, views_in_flight, visits


class Growth(NamedTuple):
    """A moment at which memory has grown, and the bytes by kind that are held beside what is kept."""

    phase: str
    layer: int | None
    passing: Counter[str]


class Samples(NamedTuple):
    """What a rank computes on in an iteration."""

    widths: Sequence[int]
    """Numbers of a sample, as it comes in and after each layer; all layers but the last have a ReLU."""
    rows: Sequence[int]
    """Rows of each micro-batch."""
    target_bytes: int
    """Bytes of the target of a row."""


class UpdateStep(NamedTuple):
    """What an update holds."""

    scratch: Sequence[int]
    """Elements that the optimizer works in, one after the other."""
    reduces_scalars: bool
    """Whether there are norms or votes."""


@dataclass(frozen=True)
class Passing:
    """The memory that passes through one rank in an iteration, and all that it depends on."""

    strategy: str
    layers: Sequence[Sizes]
    rank: int
    precision: Precision
    samples: Samples
    update: UpdateStep
    prefetch: int = 0
    keep_views: KeepViews = "none"
    scratch: Scratch = ring_scratch
    frozen: Frozen | None = None

    def growths(self, *, updates: bool) -> Iterator[Growth]:
        """All moments of growth, in a rank's order; ``updates``: the iteration is not voted down."""
        in_flight = 0  # bytes of reductions
        for micro_batch in range(len(self.samples.rows)):
            yield from self._forward(micro_batch, in_flight)
            for layer in reversed(range(len(self.layers))):
                in_flight = yield from self._backward(layer, micro_batch, in_flight)
        yield from self._in_update(updates)

    def _forward(self, micro_batch: int, in_flight: int) -> Iterator[Growth]:
        outputs = self._outputs(micro_batch)
        always = self._input(micro_batch) + Counter(buffer=in_flight)
        for layer in range(len(self.layers)):
            visit, _ = visits(layer, micro_batch, len(self.layers))
            saved = Counter(activation=sum(outputs[:layer]))
            yield Growth("forward", layer, always + self._views(visit, waits=True) + saved)
            activations = Counter(activation=sum(outputs[: layer + 1]))
            yield Growth("forward", layer, always + self._in_use(layer, visit) + activations)

        last = len(self.layers) - 1
        visit, _ = visits(last, micro_batch, len(self.layers))
        always += self._views(visit, after=True) + Counter(activation=sum(outputs))
        if self.frozen is not None:
            for beside in self.frozen.growths(self.samples.rows[micro_batch]):
                yield Growth("forward", last, always + beside)
        yield Growth("forward", last, always + Counter(activation=outputs[last]))  # the loss has a gradient

    def _backward(self, layer: int, micro_batch: int, in_flight: int) -> Generator[Growth, None, int]:
        """The moments of a layer's backward; returns the bytes that reductions hold in flight after it."""
        asked = self.strategy, self.precision, self.layers[layer]
        _, visit = visits(layer, micro_batch, len(self.layers))
        outputs = self._outputs(micro_batch)
        below, output = sum(outputs[:layer]), outputs[layer]
        grad_x = outputs[layer - 1] if layer > 0 else 0
        before_relu = output if layer < len(self.layers) - 1 else 0
        always = self._input(micro_batch)
        saved = Counter(buffer=in_flight, activation=below + output + output)
        yield Growth("backward", layer, always + self._views(visit, waits=True) + saved)
        passing = Counter(
            buffer=in_flight + full_gradient(*asked, micro_batch),
            activation=below + output + output + before_relu + grad_x,
        )
        yield Growth("backward", layer, always + self._in_use(layer, visit) + passing)

        always += self._views(visit, after=True) + Counter(activation=below + grad_x)
        if is_sharded(self.strategy, "gradient"):
            in_flight = 0  # the reduction before this one ends first, or full gradients would pile up
        for cast in gradient_casts(*asked):
            yield Growth("backward", layer, always + Counter(buffer=cast))
        in_flight += reduction(*asked, self.rank, micro_batch, len(self.samples.rows), self.scratch)
        yield Growth("backward", layer, always + Counter(buffer=in_flight))
        return in_flight

    def _in_update(self, updates: bool) -> Iterator[Growth]:
        precision = self.precision
        if not is_sharded(self.strategy, "moment") and precision.reduce != precision.summed_gradient:
            yield Growth("update", None, Counter(buffer=self._gathers_all(precision.summed_gradient)))
        if self.update.reduces_scalars:
            one = ring_scratch("all_reduce", even_cut(1, len(self.layers[0])), self.rank, in_place=True)
            yield Growth("update", None, Counter(buffer=SCALAR_BYTES * one))
        for elements in self.update.scratch if updates else ():
            yield Growth("update", None, Counter(scratch=ITEMSIZE[precision.updated] * elements))
        gathers_weights = is_sharded(self.strategy, "moment") and not is_sharded(self.strategy, "weight")
        if gathers_weights:
            cast = precision.weight_wire != precision.weight
            whole = ITEMSIZE[precision.weight_wire] * sum(map(sum, self.layers)) if cast else 0
            in_flight = self._gathers_all(precision.weight_wire)
            yield Growth("update", None, Counter(buffer=whole + in_flight))

    def _gathers_all(self, dtype: str) -> int:
        """Bytes that gathers of all layers in flight, in place, work in."""
        return ITEMSIZE[dtype] * sum(
            self.scratch("all_gather", sizes, self.rank, in_place=True) for sizes in self.layers
        )

    def _input(self, micro_batch: int) -> Counter[str]:
        """Bytes of the rows that come in, and of their targets."""
        width, *_ = self.samples.widths
        a_row = width * ITEMSIZE[self.precision.compute] + self.samples.target_bytes
        return Counter(input=self.samples.rows[micro_batch] * a_row)

    def _outputs(self, micro_batch: int) -> list[int]:
        """Bytes of each layer's outputs, all rows of the micro-batch."""
        rows, itemsize = self.samples.rows[micro_batch], ITEMSIZE[self.precision.compute]
        return [rows * width * itemsize for width in self.samples.widths[1:]]

    def _in_use(self, layer: int, visit: int) -> Counter[str]:
        """Bytes of views during a visit of a layer, and of the copy of this one."""
        copy = compute_copy(self.strategy, self.precision, self.layers[layer])
        return self._views(visit) + Counter({"compute copy": copy})

    def _views(self, visit: int, *, after: bool = False, waits: bool = False) -> Counter[str]:
        """Bytes of the views that are held during a visit, or after it, and of gathers in flight.

        ``waits``: the gather that the visit needs is one of them.
        """
        itemsize = ITEMSIZE[self.precision.weight_wire]
        held = views_held(self._gathers, visit, self.prefetch, after=after)
        in_flight = views_in_flight(self._gathers, visit, self.prefetch, waits=waits)
        in_place = self.precision.weight_wire != self.precision.weight
        scratch = [
            self.scratch("all_gather", self.layers[layer], self.rank, in_place=in_place)
            for layer in in_flight
        ]
        return Counter(
            view=itemsize * sum(sum(self.layers[layer]) for layer in held), buffer=itemsize * sum(scratch)
        )

    @cached_property
    def _gathers(self) -> list[Gather]:
        """All gathers of an iteration: none where weights are kept whole."""
        if not is_sharded(self.strategy, "weight"):
            return []
        return gathers(len(self.layers), len(self.samples.rows), self.keep_views)
