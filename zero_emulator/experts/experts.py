"""The experts: small networks that each work on the rows that chose them, wherever those rows are."""

from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from zero_emulator.experts.feed_forward import Tensors, feed_backward, feed_forward
from zero_emulator.experts.home import combine, combine_gradients, leaving_gradients, leaving_rows
from zero_emulator.experts.peers import ALONE, Peers
from zero_emulator.experts.travel import Travel, plan_travel
from zero_emulator.layer import check_dtypes, draw
from zero_emulator.layout import Array, Empty, FlatLayout
from zero_emulator.padding import PADDINGS, Padding


class ExpertsSaved(NamedTuple):
    """What backward needs of a forward pass; ``arrived`` and ``hidden`` are of the experts here."""

    x: Array
    arrived: Array
    hidden: Array  # sorted by expert
    outputs: Array  # of the experts for the rows of this rank, in the order in which those were sent
    travel: Travel

    @property
    def loss(self) -> float:
        """Experts add nothing to the loss."""
        return 0.0


@dataclass(frozen=True)
class Experts:
    """The plan of a layer y = x + Σ gate · expert(x): (rows, width) of [x | gates].

    An expert is max(x · w1 + b1, 0) · w2 + b2, and works on a row where its gate is not 0. The parameters are
    those of the experts ``here``, one expert after the other: all of them, or this rank's equal part of those
    that ``peers`` share out in order. Rows go to the experts and come back; in backward their gradients do.
    """

    width: int
    hidden: int
    num_experts: int
    here: range
    padding: Padding = ()
    peers: Peers = ALONE

    @property
    def inputs(self) -> int:
        return self.width + self.num_experts

    @property
    def outputs(self) -> int:
        return self.width

    @property
    def shapes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Of each expert here w1 (width, hidden), b1, w2 (hidden, width) and b2; ``expert3.w1`` is a name."""
        return tuple(
            (f"expert{expert}.{name}", shape)
            for expert in self.here
            for name, shape in (
                ("w1", (self.width, self.hidden)),
                ("b1", (self.hidden,)),
                ("w2", (self.hidden, self.width)),
                ("b2", (self.width,)),
            )
        )

    @property
    def layout(self) -> FlatLayout:
        """Where they lie in the flat parameters."""
        return FlatLayout(self.shapes, self.padding)

    @property
    def place(self) -> slice:
        """Where its parameters lie among those of the whole layer, both without padding."""
        size = 2 * self.width * self.hidden + self.hidden + self.width
        return slice(self.here.start * size, self.here.stop * size)

    def padded(self, padding: str, world_size: int) -> "Experts":
        """The same layer with the padding of that name."""
        shapes = [shape for _, shape in self.shapes]
        return replace(self, padding=PADDINGS[padding](shapes, world_size))

    def initial(self, rng: np.random.Generator, dtype: npt.DTypeLike) -> Array:
        """Fresh flat parameters, as ``Linear`` has them.

        All experts are drawn, and those here are kept: so a part is the slice ``place`` of the whole layer,
        and what is drawn next is the same on every rank.
        """
        params = np.zeros(self.layout.size, dtype)
        views = self.layout.views(params)
        for name, shape in replace(self, here=range(self.num_experts)).shapes:
            if len(shape) == 2:
                draw(rng, views.get(name, np.empty(shape)))
        return params

    def forward(
        self, params: Array, x: Array, empty: Empty = np.empty, *, global_count: int = 1
    ) -> tuple[Array, ExpertsSaved]:
        """x + Σ gate · expert(x). All ranks of ``peers`` call it: two exchanges, after one of counts."""
        check_dtypes(params, x)
        travel = self._plan(x)
        arrived = self.peers.exchange(leaving_rows(x, self.width, travel, empty), travel.table)
        hidden = empty((len(arrived), self.hidden), x.dtype)
        results = empty(arrived.shape, x.dtype)
        for tensors, (rows, place) in zip(self._tensors(params), travel.arrived, strict=True):
            results[rows] = feed_forward(tensors, arrived[rows], hidden[place])
        outputs = self.peers.exchange(results, travel.table.T)
        del results
        y = combine(x, outputs, travel, empty)
        return y, ExpertsSaved(x, arrived, hidden, outputs, travel)

    def backward(
        self,
        params: Array,
        saved: ExpertsSaved,
        grad_y: Array,
        grad_params: Array,
        empty: Empty = np.empty,
        *,
        needs_grad_x: bool = True,
        loss_scale: float = 1.0,
    ) -> Array | None:
        """The gradient by [x | gates]. All ranks call it: two exchanges, whether or not it is needed.

        ``grad_params`` gets the gradient by the experts here, from the rows of all ranks that share them.
        """
        x, arrived, hidden, outputs, travel = saved
        grads = self.peers.exchange(leaving_gradients(x, grad_y, travel, empty), travel.table)
        results = empty(arrived.shape, x.dtype)
        experts = zip(self._tensors(params), self._tensors(grad_params), travel.arrived, strict=True)
        for tensors, grad_tensors, (rows, place) in experts:
            results[rows] = feed_backward(tensors, arrived[rows], hidden[place], grads[rows], grad_tensors)
        self.layout.clear_padding(grad_params)
        del grads
        returned = self.peers.exchange(results, travel.table.T)
        del results
        if not needs_grad_x:
            return None
        return combine_gradients(x, outputs, grad_y, returned, travel, empty)

    def _plan(self, x: Array) -> Travel:
        """Every rank's pairs have to be known, and not this rank's alone: the gates are seen here only."""
        sharing = self.peers.sharing or (self.peers.rank,)
        position = tuple(sharing).index(self.peers.rank)
        size = self.num_experts // len(sharing)
        due = range(position * size, (position + 1) * size)
        if size * len(sharing) != self.num_experts or self.here != due:
            raise ValueError(
                f"experts {self.here.start} to {self.here.stop - 1} are here, not part {position} of "
                f"{self.num_experts} experts over {len(sharing)} ranks: make the layer with `part`"
            )
        pairs = x[:, self.width :] != 0
        counts = self.peers.gather_counts(pairs.sum(axis=0, dtype=np.int64))
        return plan_travel(pairs, counts[list(sharing)], self.here)

    def _tensors(self, flat: Array) -> list[Tensors]:
        """The four tensors of each expert here."""
        views = list(self.layout.views(flat).values())
        return [cast(Tensors, tuple(views[first : first + 4])) for first in range(0, len(views), 4)]
