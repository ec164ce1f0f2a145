"""A multi-layer perceptron, layer by layer; a layer's parameters are one flat array that it does not keep."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zero_emulator.layer import Layer, check_dtypes, draw
from zero_emulator.layout import Array, Empty, FlatLayout
from zero_emulator.padding import PADDINGS, Padding


class Saved(NamedTuple):
    """What backward needs of a forward pass."""

    x: Array
    y: Array  # held anyway, as the next layer's x

    @property
    def loss(self) -> float:
        """A linear layer adds nothing to the loss."""
        return 0.0


@dataclass(frozen=True)
class Linear:
    """The plan of one layer, y = x · weight + bias, followed by max(y, 0) where ``relu`` is set.

    ``padding``: zeros behind weight and bias in the flat parameters; they stay zero.
    """

    inputs: int
    outputs: int
    relu: bool
    padding: Padding = ()

    @property
    def shapes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Weight (inputs, outputs), then bias (outputs,)."""
        return ("weight", (self.inputs, self.outputs)), ("bias", (self.outputs,))

    @property
    def layout(self) -> FlatLayout:
        """Where they lie in the flat parameters."""
        return FlatLayout(self.shapes, self.padding)

    def padded(self, padding: str, world_size: int) -> "Linear":
        """The same layer with the padding of that name."""
        shapes = [shape for _, shape in self.shapes]
        return replace(self, padding=PADDINGS[padding](shapes, world_size))

    def initial(self, rng: np.random.Generator, dtype: npt.DTypeLike) -> Array:
        """Fresh flat parameters: weights normal with variance 2 / inputs, biases zero."""
        params = np.zeros(self.layout.size, dtype)
        draw(rng, self.layout.views(params)["weight"])
        return params

    def forward(
        self, params: Array, x: Array, empty: Empty = np.empty, *, global_count: int = 1
    ) -> tuple[Array, Saved]:
        """The outputs (rows, outputs) of ``x`` (rows, inputs), which are in what is saved too."""
        check_dtypes(params, x)
        weight, bias = self.layout.views(params).values()
        y = empty((len(x), self.outputs), x.dtype)
        np.matmul(x, weight, out=y)
        y += bias
        if self.relu:
            np.maximum(y, 0, out=y)
        return y, Saved(x, y)

    def backward(
        self,
        params: Array,
        saved: Saved,
        grad_y: Array,
        grad_params: Array,
        empty: Empty = np.empty,
        *,
        needs_grad_x: bool = True,
        loss_scale: float = 1.0,
    ) -> Array | None:
        """The gradient by x (rows, inputs); ``empty`` makes it, and the gradient before the ReLU."""
        grad_weight, grad_bias = self.layout.views(grad_params).values()
        grad_z = grad_y
        if self.relu:
            grad_z = empty(grad_y.shape, grad_y.dtype)
            np.sign(saved.y, out=grad_z)  # 1 where it passed, for y is never negative
            grad_z *= grad_y
        np.matmul(saved.x.T, grad_z, out=grad_weight)
        np.sum(grad_z, axis=0, out=grad_bias)
        self.layout.clear_padding(grad_params)
        if not needs_grad_x:
            return None
        grad_x = empty(saved.x.shape, saved.x.dtype)
        return np.matmul(grad_z, self.layout.views(params)["weight"].T, out=grad_x)


def build_mlp(sizes: Sequence[int]) -> tuple[Linear, ...]:
    """A layer between every two neighbouring sizes, with a ReLU on all but the last.

    ValueError for fewer than two sizes, or one below 1.

    >>> [(layer.inputs, layer.outputs, layer.relu) for layer in build_mlp([64, 32, 10])]
    [(64, 32, True), (32, 10, False)]
    """
    if len(sizes) < 2 or min(sizes) < 1:
        raise ValueError(f"sizes {list(sizes)} make no MLP: give two or more, each 1 or more")
    last = len(sizes) - 2
    return tuple(
        Linear(inputs, outputs, relu=index < last) for index, (inputs, outputs) in enumerate(pairwise(sizes))
    )


def initial_parameters(layers: Sequence[Layer], seed: int, dtype: npt.DTypeLike) -> list[Array]:
    """One flat array a layer; the same seed gives the same numbers, on every rank and in every dtype."""
    rng = np.random.default_rng(seed)
    return [layer.initial(rng, dtype) for layer in layers]
