"""What every layer of a model is: a frozen plan, array in, array out, so that a pipeline may cut anywhere."""

from math import sqrt
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from zero_emulator.layout import Array, Empty, FlatLayout


class Kept(Protocol):
    """What backward needs of a forward pass. No parameters: their full view may be gone by then."""

    @property
    def loss(self) -> float:
        """These rows' share of a loss that the layer has of its own; 0.0 if it has none."""


class Layer(Protocol):
    """The plan of a layer. Its parameters are one flat array that it does not keep."""

    @property
    def inputs(self) -> int:
        """Numbers of a row that comes in."""

    @property
    def outputs(self) -> int:
        """Numbers of a row that goes out."""

    @property
    def shapes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Its tensors by name, in the order in which they lie in the flat parameters."""

    @property
    def layout(self) -> FlatLayout:
        """Where they lie, with zeros behind them that stay zero."""

    def padded(self, padding: str, world_size: int) -> "Layer":
        """The same layer with the padding of that name."""

    def initial(self, rng: np.random.Generator, dtype: npt.DTypeLike) -> Array:
        """Fresh flat parameters, drawn in float64 and then cast: every dtype starts from the same numbers."""

    def forward(
        self, params: Array, x: Array, empty: Empty = np.empty, *, global_count: int = 1
    ) -> tuple[Array, Kept]:
        """The outputs of the rows ``x``, and what ``backward`` will need: do not write to either.

        ``params`` is flat and of the dtype of ``x``, else ValueError. ``empty`` makes what is made.
        ``global_count``: the samples of the global batch, by which a loss of the layer's own is divided.
        """

    def backward(
        self,
        params: Array,
        saved: Any,  # what its own forward has saved
        grad_y: Array,
        grad_params: Array,
        empty: Empty = np.empty,
        *,
        needs_grad_x: bool = True,
        loss_scale: float = 1.0,
    ) -> Array | None:
        """The gradient by x (rows, inputs), or None where it is not needed, as in the first layer.

        Overwrites ``grad_params``, flat like ``params``, with the gradient by the parameters: whatever it
        held before is gone, and an empty batch leaves zeros. ``grad_y`` (rows, outputs) is only read.
        ``loss_scale``: what ``grad_y`` has been multiplied by, and a loss of the layer's own must be, too.
        """


def check_dtypes(params: Array, x: Array) -> None:
    """ValueError where a product of the two would be of a dtype that one of them is not."""
    if x.dtype != params.dtype:
        raise ValueError(f"x is {x.dtype} and the parameters are {params.dtype}: cast one to the other")


def draw(rng: np.random.Generator, weight: Array) -> None:
    """Fill a weight (inputs, outputs) with normal numbers of variance 2 / inputs.

    Source: He et al., Delving Deep into Rectifiers, 2015.
    """
    weight[...] = rng.standard_normal(weight.shape) * sqrt(2 / len(weight))
