"""The peak: the most that a rank holds at once, by kind, and when.

To what is kept between iterations come, while a layer of S parameters is in use on n rows:

    view           of each layer that is in use, prefetched, or kept for its backward (ZeRO-3)
    compute copy   of the layer in use, if its weights are of another dtype
    buffer         its full gradient, if that is not kept, and casts of it; what reductions hold in flight;
                   all layers where updated weights are cast for the wire
    scratch        of the optimizer
    activation     outputs of all layers up to this one, the gradient by its own, once more before its ReLU,
                   and the gradient by its inputs
    input          n rows and their targets

Each moment at which memory has grown is written down from what the strategies are, in the order in which a
rank gets there; the peak is the first of the largest. Source: S. Rajbhandari et al., ZeRO, SC 2020, for what
is kept and what passes ("residual states").
"""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from collectives.blocks import even_cut
from zero_emulator.meter import Moment, Peak
from zero_emulator.precision import ITEMSIZE, Precision
from zero_emulator.theory.claimed import is_sharded
from zero_emulator.theory.overhead import SCALAR_BYTES
from zero_emulator.theory.passing import compute_copy, full_gradient, gradient_casts, reduction
from zero_emulator.theory.rings import Sizes, ring_scratch
from zero_emulator.theory.training import KeepViews
from zero_emulator.theory.views import gathers, views_held, visits

Growth = tuple[str, int | None, Counter[str]]
"""Phase, layer, and the bytes by kind that are held beside what is kept."""


@dataclass(frozen=True)
class Held:
    """One rank's memory in closed form, and all that it depends on.

    ``kept``: bytes between iterations, by kind. ``widths``: numbers of a sample, as it comes in and after
    each layer; all layers but the last have a ReLU. ``rows``: of each micro-batch. ``target_bytes``: of a
    row. ``scratch``: elements that the optimizer works in, one after the other. ``scalars``: whether norms or
    votes are reduced.
    """

    strategy: str
    layers: Sequence[Sizes]
    rank: int
    precision: Precision
    kept: dict[str, int]
    widths: Sequence[int]
    rows: Sequence[int]
    target_bytes: int
    scratch: Sequence[int]
    scalars: bool
    prefetch: int = 0
    keep_views: KeepViews = "none"

    def peak(self, first_update: int | None = 1) -> Peak:
        """Of a run that made its first update in this iteration, or none at all: one may be voted down."""
        kept = Counter(self.kept)
        highest = Peak(dict(+kept), Moment())
        for iteration in sorted({1, first_update or 1}):
            for phase, layer, passing in self._growths(updates=iteration == first_update):
                now = Peak(dict(kept + passing), Moment(iteration, phase, layer))
                if now.total > highest.total:
                    highest = now
        return highest

    def _growths(self, *, updates: bool) -> Iterator[Growth]:
        in_flight = 0  # bytes of reductions
        for micro_batch, rows in enumerate(self.rows):
            compute = ITEMSIZE[self.precision.compute]
            base = Counter(input=rows * (self.widths[0] * compute + self.target_bytes))
            width = [rows * width * compute for width in self.widths]  # bytes of all rows
            yield from self._forward(micro_batch, base, width, in_flight)
            for layer in reversed(range(len(self.layers))):
                in_flight = yield from self._backward(layer, micro_batch, base, width, in_flight)
        yield from self._update(updates)

    def _forward(
        self, micro_batch: int, base: Counter[str], width: Sequence[int], in_flight: int
    ) -> Iterator[Growth]:
        for layer in range(len(self.layers)):
            visit, _ = visits(layer, micro_batch, len(self.layers))
            passing = Counter(buffer=in_flight, activation=sum(width[1 : layer + 2]))
            yield "forward", layer, base + self._in_use(layer, visit) + passing
        passing = Counter(buffer=in_flight, activation=sum(width[1:]) + width[-1])  # the loss has a gradient
        yield "forward", layer, base + self._views(visit, after=True) + passing

    def _backward(
        self, layer: int, micro_batch: int, base: Counter[str], width: Sequence[int], in_flight: int
    ) -> Generator[Growth, None, int]:
        """Also returns what reductions hold in flight when the layer is done."""
        asked = self.strategy, self.precision, self.layers[layer]
        _, visit = visits(layer, micro_batch, len(self.layers))
        below, output = sum(width[1 : layer + 1]), width[layer + 1]
        grad_x = width[layer] if layer > 0 else 0
        before_relu = output if layer < len(self.layers) - 1 else 0
        passing = Counter(
            buffer=in_flight + full_gradient(*asked, micro_batch),
            activation=below + output + output + before_relu + grad_x,
        )
        yield "backward", layer, base + self._in_use(layer, visit) + passing

        base = base + self._views(visit, after=True) + Counter(activation=below + grad_x)
        if is_sharded(self.strategy, "gradient"):
            in_flight = 0  # the reduction before this one ends first, or full gradients would pile up
        for cast in gradient_casts(*asked):
            yield "backward", layer, base + Counter(buffer=cast)
        in_flight += reduction(*asked, self.rank, micro_batch, len(self.rows))
        yield "backward", layer, base + Counter(buffer=in_flight)
        return in_flight

    def _update(self, updates: bool) -> Iterator[Growth]:
        precision = self.precision
        if self.scalars:
            one = ring_scratch("all_reduce", even_cut(1, len(self.layers[0])), self.rank, in_place=True)
            yield "update", None, Counter(buffer=SCALAR_BYTES * one)
        for elements in self.scratch if updates else ():
            yield "update", None, Counter(scratch=ITEMSIZE[precision.updated] * elements)
        gathers_weights = is_sharded(self.strategy, "moment") and not is_sharded(self.strategy, "weight")
        if gathers_weights and precision.weight_wire != precision.weight:
            whole = sum(map(sum, self.layers))
            yield "update", None, Counter(buffer=ITEMSIZE[precision.weight_wire] * whole)

    def _in_use(self, layer: int, visit: int) -> Counter[str]:
        """Views during a visit of a layer, and the copy of this one."""
        copy = compute_copy(self.strategy, self.precision, self.layers[layer])
        return self._views(visit) + Counter({"compute copy": copy})

    def _views(self, visit: int, *, after: bool = False) -> Counter[str]:
        if not is_sharded(self.strategy, "weight"):
            return Counter()
        found = gathers(len(self.layers), len(self.rows), self.keep_views)
        held = views_held(found, visit, self.prefetch, after=after)
        return Counter(view=ITEMSIZE[self.precision.weight_wire] * sum(sum(self.layers[n]) for n in held))
