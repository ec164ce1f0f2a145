"""How good a trained model is."""

from collections.abc import Sequence

import numpy as np

from zero_emulator.layer import Layer
from zero_emulator.layout import Array


def accuracy(layers: Sequence[Layer], parameters: Sequence[Array], x: Array, y: Array) -> float:
    """The fraction of samples ``x`` (rows, inputs) whose largest output is their class in ``y`` (rows,).

    ValueError without samples.
    """
    if len(x) == 0:
        raise ValueError("0 samples have no accuracy: pass 1 or more")
    for layer, params in zip(layers, parameters, strict=True):
        x, _ = layer.forward(params, x)
    return float(np.mean(x.argmax(axis=1) == y))
