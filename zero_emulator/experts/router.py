"""The router: which experts each row goes to, with which weight, and a loss that keeps them equally busy."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zero_emulator.experts.gates import GATINGS, choose, keep, only
from zero_emulator.experts.peers import ALONE, Peers
from zero_emulator.experts.routing import Routing, route
from zero_emulator.layer import check_dtypes, draw
from zero_emulator.layout import Array, Empty, FlatLayout
from zero_emulator.padding import PADDINGS, Padding


class RouterSaved(NamedTuple):
    """What backward needs of a forward pass, and what it has to report."""

    x: Array
    probabilities: Array
    chosen: Array
    kept: Array
    slopes: Array  # what the loss grows by with any row's probability of each expert
    routing: Routing
    loss: float


@dataclass(frozen=True)
class Router:
    """The plan of a layer that gives [x | gates], (rows, width + num_experts); most gates are 0.

    Each row chooses the ``top_k`` most probable experts of softmax(x · weight). With ``capacity`` an expert
    takes at most capacity · top_k · samples / num_experts rows of the global micro-batch, rounded up, the
    first ones; the gates of what is dropped are 0, others stay as they are.

    The loss is ``balance`` · num_experts · Σ f · P: f is the part of the global micro-batch's choices that
    fell on an expert, before drops, a constant to the gradient; P its mean probability.
    Source: Fedus et al., Switch Transformers, 2022.
    """

    width: int
    num_experts: int
    top_k: int = 1
    capacity: float | None = None
    balance: float = 0.0
    padding: Padding = ()
    peers: Peers = ALONE

    @property
    def inputs(self) -> int:
        return self.width

    @property
    def outputs(self) -> int:
        return self.width + self.num_experts

    @property
    def shapes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Weight (width, num_experts), and no bias."""
        return (("weight", (self.width, self.num_experts)),)

    @property
    def layout(self) -> FlatLayout:
        """Where it lies in the flat parameters."""
        return FlatLayout(self.shapes, self.padding)

    def padded(self, padding: str, world_size: int) -> "Router":
        """The same layer with the padding of that name."""
        shapes = [shape for _, shape in self.shapes]
        return replace(self, padding=PADDINGS[padding](shapes, world_size))

    def initial(self, rng: np.random.Generator, dtype: npt.DTypeLike) -> Array:
        """Fresh flat parameters: normal with variance 2 / width."""
        params = np.zeros(self.layout.size, dtype)
        draw(rng, self.layout.views(params)["weight"])
        return params

    def forward(
        self, params: Array, x: Array, empty: Empty = np.empty, *, global_count: int = 1
    ) -> tuple[Array, RouterSaved]:
        """[x | gates] of ``x`` (rows, width). All ranks of ``peers`` call it: they gather their counts."""
        check_dtypes(params, x)
        probabilities = empty((len(x), self.num_experts), x.dtype)
        np.matmul(x, self.layout.views(params)["weight"], out=probabilities)
        _softmax(probabilities)
        chosen = choose(probabilities, self.top_k)
        counts = self.peers.gather_counts(chosen.sum(axis=0, dtype=np.int64))
        routing = route(counts, self.top_k, self.capacity)
        kept = chosen & (np.cumsum(chosen, axis=0) <= routing.kept[self.peers.rank])

        y = empty((len(x), self.outputs), x.dtype)
        y[:, : self.width] = x
        gates = y[:, self.width :]
        GATINGS[self.top_k].forward(probabilities, chosen, gates)
        keep(gates, kept)
        slopes = self.balance * self.num_experts * routing.shares / global_count
        loss = float(probabilities.sum(axis=0, dtype=np.float64) @ slopes)
        return y, RouterSaved(x, probabilities, chosen, kept, slopes, routing, loss)

    def backward(
        self,
        params: Array,
        saved: RouterSaved,
        grad_y: Array,
        grad_params: Array,
        empty: Empty = np.empty,
        *,
        needs_grad_x: bool = True,
        loss_scale: float = 1.0,
    ) -> Array | None:
        """The gradient by x (rows, width); nothing is sent."""
        x, probabilities, chosen, kept, slopes, *_ = saved
        grad_gates = empty(probabilities.shape, grad_y.dtype)
        only(grad_y[:, self.width :], kept, grad_gates)
        grad = empty(probabilities.shape, grad_y.dtype)  # by the probabilities, then by what they came from
        GATINGS[self.top_k].backward(probabilities, chosen, grad_gates, grad)
        grad += (slopes * loss_scale).astype(grad.dtype)
        grad -= (grad * probabilities).sum(axis=1, keepdims=True)
        grad *= probabilities

        np.matmul(x.T, grad, out=self.layout.views(grad_params)["weight"])
        self.layout.clear_padding(grad_params)
        if not needs_grad_x:
            return None
        grad_x = empty(x.shape, x.dtype)
        np.matmul(grad, self.layout.views(params)["weight"].T, out=grad_x)
        grad_x += grad_y[:, : self.width]
        return grad_x


def _softmax(logits: Array) -> None:
    """In place, row by row; the largest exponent is 0, so exp cannot overflow."""
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
