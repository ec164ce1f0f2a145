"""The peak: the most that a rank holds at once, by kind, and when.

To what is kept between iterations come, for a layer of S parameters on n rows, with c, w, g and r bytes of a
number that is computed in, of a weight on the wire, of a summed gradient and of one that is reduced:

    view           w S of each layer that is in use, prefetched, or kept for its backward (ZeRO-3)
    compute copy   c S while the layer is in use, if its weights are of another dtype
    buffer         c S of gradient, where backward cannot write to the kept one; (c + g) S and (g + r) S
                   while it is cast; what reductions hold in flight; w Ψ, where updated weights are cast
    scratch        of the optimizer
    activation     c n (outputs of all layers up to this one, the gradient by its own, once more before its
                   ReLU, and the gradient by its inputs)
    input          n rows and their targets

Each moment at which memory has grown is written down from what the strategies are, in the order in which a
rank gets there; the peak is the largest. Source: S. Rajbhandari et al., ZeRO, SC 2020, sections 3 and 6, for
what is kept and what passes ("residual states").
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collectives.blocks import even_cut
from zero_emulator.meter import Moment, Peak
from zero_emulator.precision import ITEMSIZE, Precision
from zero_emulator.theory.kept import is_sharded
from zero_emulator.theory.overhead import SCALAR_BYTES
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
        reductions = 0  # bytes in flight
        last, compute = len(self.layers) - 1, ITEMSIZE[self.precision.compute]
        for micro_batch, rows in enumerate(self.rows):
            width = [rows * compute * width for width in self.widths]  # bytes of all rows
            base = Counter(input=width[0] + rows * self.target_bytes)
            for layer in range(last + 1):
                forward, _ = visits(layer, micro_batch, last + 1)
                held = base + self._views(forward) + self._copy(layer)
                held += Counter(buffer=reductions, activation=sum(width[1 : layer + 2]))
                yield "forward", layer, held
            held = base + self._views(forward, after=True)
            held += Counter(buffer=reductions, activation=sum(width[1:]) + width[-1])
            yield "forward", last, held  # the loss, and its gradient
            for layer in reversed(range(last + 1)):
                _, backward = visits(layer, micro_batch, last + 1)
                outputs, grad, grad_x = (
                    sum(width[1 : layer + 1]),
                    width[layer + 1],
                    width[layer] * (layer > 0),
                )
                held = base + self._views(backward) + self._copy(layer)
                held += Counter(
                    buffer=reductions + self._gradient(layer, micro_batch),
                    activation=outputs + 2 * grad + grad * (layer < last) + grad_x,
                )
                yield "backward", layer, held
                held = base + self._views(backward, after=True) + Counter(activation=outputs + grad_x)
                if is_sharded(self.strategy, "gradient"):
                    reductions = 0  # the one before must be over: full gradients would pile up
                for pair in self._casts(layer):
                    yield "backward", layer, held + Counter(buffer=pair)
                reductions += self._reduction(layer, micro_batch)
                yield "backward", layer, held + Counter(buffer=reductions)
        yield from self._update(updates)

    def _views(self, visit: int, *, after: bool = False) -> Counter[str]:
        if not is_sharded(self.strategy, "weight"):
            return Counter()
        found = gathers(len(self.layers), len(self.rows), self.keep_views)
        held = views_held(found, visit, self.prefetch, after=after)
        return Counter(view=ITEMSIZE[self.precision.weight_wire] * sum(sum(self.layers[n]) for n in held))

    def _copy(self, layer: int) -> Counter[str]:
        precision = self.precision
        full = precision.weight_wire if is_sharded(self.strategy, "weight") else precision.weight
        copied = full != precision.compute
        return Counter({"compute copy": copied * ITEMSIZE[precision.compute] * sum(self.layers[layer])})

    def _gradient(self, layer: int, micro_batch: int) -> int:
        """What backward writes to, where it is not the gradient that is kept."""
        precision = self.precision
        kept = not is_sharded(self.strategy, "gradient") and precision.summed_gradient == precision.compute
        return 0 if kept and micro_batch == 0 else ITEMSIZE[precision.compute] * sum(self.layers[layer])

    def _casts(self, layer: int) -> list[int]:
        """Of a gradient that is not kept whole: to the dtype of the kept shard, then to that of the wire."""
        if not is_sharded(self.strategy, "gradient"):
            return []
        kept, compute, reduce = self.precision.summed_gradient, self.precision.compute, self.precision.reduce
        pairs = [(compute, kept), (kept, reduce)]
        whole = sum(self.layers[layer])
        return [whole * (ITEMSIZE[a] + ITEMSIZE[b]) for a, b in pairs if a != b]

    def _reduction(self, layer: int, micro_batch: int) -> int:
        """What the reduction of a layer holds until it is over: the wire, the ring's scratch, the result."""
        precision, sizes = self.precision, self.layers[layer]
        itemsize, same = ITEMSIZE[precision.reduce], precision.reduce == precision.summed_gradient
        if is_sharded(self.strategy, "gradient"):
            scratch = ring_scratch("reduce_scatter", sizes, self.rank, in_place=False)
            result = 0 if same and micro_batch == 0 else sizes[self.rank]
            return itemsize * (sum(sizes) + scratch + result)
        if micro_batch < len(self.rows) - 1:
            return 0
        scratch = ring_scratch("reduce_scatter", sizes, self.rank, in_place=True)
        return itemsize * (scratch + (0 if same else sum(sizes)))

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
