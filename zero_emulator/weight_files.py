"""Weights of an MLP in a .npz file: ``layer0.weight`` (inputs, outputs), ``layer0.bias`` (outputs,), ..."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from collectives.files import write_whole
from zero_emulator.dtypes import dtype_of
from zero_emulator.layer import Layer
from zero_emulator.layout import Array
from zero_emulator.model import Linear, build_mlp
from zero_emulator.npz_files import DataError, open_file, read_npz

WRITER = "train --save FILE.npz"
DTYPES = (np.float64, np.float32, np.float16)


class Model(NamedTuple):
    """Layers, and one flat array of parameters for each."""

    layers: tuple[Linear, ...]
    weights: list[Array]


def save_weights(path: Path, layers: Sequence[Layer], weights: Sequence[Array]) -> None:
    """Write the file of ``saved_weights``, whole or not at all."""
    write_whole(path, saved_weights(layers, weights))


def saved_weights(layers: Sequence[Layer], weights: Sequence[Array]) -> Iterator[bytes]:
    """What is in the file: weights as they are, but bfloat16, which .npz has not, as float32; no padding.

    ValueError as of ``check_saved``.
    """
    check_saved(layers)
    arrays: dict[str, Any] = {}
    for index, (layer, flat) in enumerate(zip(layers, weights, strict=True)):
        kept = flat if flat.dtype in DTYPES else flat.astype(np.float32)
        for name, tensor in layer.layout.views(kept).items():
            arrays[f"layer{index}.{name}"] = tensor
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    yield buffer.getvalue()


def check_saved(layers: Sequence[Layer]) -> None:
    """ValueError for a layer that the file has no names for."""
    for index, layer in enumerate(layers):
        if not isinstance(layer, Linear):
            raise ValueError(
                f"layer {index} is a {type(layer).__name__}, and only an MLP of Linear can be saved: drop "
                "--save, or what makes such layers, as --experts"
            )


def load_weights(path: Path, inputs: int, classes: int, dtype: str) -> Model:
    """The model in the file, cast to this dtype: an MLP from so many inputs to so many classes.

    Its layers' sizes are those of the arrays, with a ReLU on all but the last. DataError, one line, for a
    file that holds anything else.
    """
    with open_file(path, ".npz") as file:
        arrays = read_npz(path, file, _names, WRITER)
    weights, biases = arrays[::2], arrays[1::2]
    for name, array in zip(_names(arrays), arrays, strict=True):
        _check_numbers(path, name, array, dtype)
    sizes = _sizes(path, weights, biases)
    for what, size, wanted in (("inputs", sizes[0], inputs), ("classes", sizes[-1], classes)):
        if size != wanted:
            raise DataError(
                f"{path}: a model of {size} {what}, the data set has {wanted}: train one on the same data"
            )
    flat = [np.concatenate([array.ravel() for array in pair]) for pair in zip(weights, biases, strict=True)]
    return Model(build_mlp(sizes), [array.astype(dtype_of(dtype)) for array in flat])


def _names(arrays: Sequence[object]) -> list[str]:
    """Names for so many arrays, two a layer; for at least one layer."""
    layers = range(max(1, (len(arrays) + 1) // 2))
    return [f"layer{index}.{name}" for index in layers for name in ("weight", "bias")]


def _check_numbers(path: Path, name: str, array: npt.NDArray[Any], dtype: str) -> None:
    if array.dtype not in DTYPES:
        raise DataError(f"{path}: {name} holds {array.dtype}: give it as float64, float32 or float16")
    with np.errstate(over="ignore"):
        narrow = array.astype(dtype_of(dtype))
    for faults, trouble, remedy in (
        (~np.isfinite(array), "are NaN or inf", "train it anew"),
        (~np.isfinite(narrow), f"are beyond {dtype}", "compute in a wider dtype"),
    ):
        if faults.any():
            place = tuple(map(int, np.argwhere(faults)[0]))
            raise DataError(
                f"{path}: {np.count_nonzero(faults)} of {array.size} numbers of {name} {trouble}, the first "
                f"at {place}: {remedy}"
            )


def _sizes(path: Path, weights: Sequence[Array], biases: Sequence[Array]) -> list[int]:
    """The inputs, then the outputs of every layer."""
    sizes: list[int] = []
    for index, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        if weight.ndim != 2 or not weight.size or bias.shape != weight.shape[1:]:
            raise DataError(
                f"{path}: layer{index} has a weight {weight.shape} and a bias {bias.shape}: "
                "give shapes (inputs, outputs) and (outputs,), at least 1 of each"
            )
        if index and sizes[-1] != len(weight):
            raise DataError(
                f"{path}: layer{index} takes {len(weight)} inputs, and layer{index - 1} has {sizes[-1]} "
                "outputs: give layers that follow one another"
            )
        sizes.append(weight.shape[1])
    return [len(weights[0]), *sizes]
