"""What a run learns from: a data set with a held-out fifth, and batches that walk the rest."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from zero_emulator.data_files import DataError, read_arrays

__all__ = ["DataError", "Dataset", "batch_indices", "load_dataset"]

HOLD_OUT = 5  # one sample in so many is never trained on
SPLIT_SEED = 0  # not the run's seed: runs with different seeds are held against the same samples
MAX_CLASSES = 10_000  # beyond it the labels are rather a quantity, and the last layer would fill the memory
DIGITS_PEAK = 16  # the brightest pixel of the packaged digits


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples and labels, read-only, the held-out ones apart.

    x: float64, (samples, features). y: int64, (samples,), 0 to ``num_classes`` - 1; a class may be absent.
    """

    name: str
    train_x: npt.NDArray[np.float64]
    train_y: npt.NDArray[np.int64]
    test_x: npt.NDArray[np.float64]
    test_y: npt.NDArray[np.int64]
    num_classes: int


def load_dataset(path: Path | None, compute: str = "float64") -> Dataset:
    """The data set in a file, or the packaged digits for None, with a fifth held out.

    A ``.npz`` holds x (samples first, the rest is flattened) and y; a ``.csv`` a sample a line, label last.
    Your numbers stay as they are, scale them beforehand; the digits are divided by 16, to lie in 0 to 1.
    Which samples are held out depends on their number only. ``compute`` is the dtype that will be computed
    in: what it cannot hold is refused.

    Raises DataError, one line that says what is wrong with the numbers in it and what to do.

    Source of the digits: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine
    Learning Repository, https://doi.org/10.24432/C50P49, CC BY 4.0.
    """
    if path is None:
        with resources.as_file(resources.files("zero_emulator") / "datasets" / "digits.npz") as packaged:
            x, y = _checked(packaged, *read_arrays(packaged), compute)
        return _split("digits", x / DIGITS_PEAK, y)
    return _split(path.name, *_checked(path, *read_arrays(path), compute))


def batch_indices(
    num_samples: int, batch_size: int, iterations: int, seed: int
) -> Iterator[npt.NDArray[np.int64]]:
    """The samples of each iteration's global batch, ``batch_size`` indices below ``num_samples``.

    Walks through fresh permutations, epoch after epoch. A batch may end one epoch and begin the next, so all
    have the same size; only such a batch can hold a sample twice. The same arguments give the same batches.

    Raises ValueError at once when a batch is empty or larger than an epoch.
    """
    if not 1 <= batch_size <= num_samples:
        raise ValueError(f"a batch of {batch_size} out of {num_samples} samples: take 1 to {num_samples}")
    if iterations < 0 or seed < 0:
        raise ValueError(f"{iterations} iterations with seed {seed}: give 0 or more for both")
    return _walk(num_samples, batch_size, iterations, np.random.default_rng(seed))


def _walk(
    num_samples: int, batch_size: int, iterations: int, generator: np.random.Generator
) -> Iterator[npt.NDArray[np.int64]]:
    samples = np.arange(num_samples, dtype=np.int64)
    ahead = samples[:0]
    for _ in range(iterations):
        if ahead.size < batch_size:
            ahead = np.concatenate([ahead, generator.permutation(samples)])
        yield ahead[:batch_size]
        ahead = ahead[batch_size:]


def _split(name: str, x: npt.NDArray[np.float64], y: npt.NDArray[np.int64]) -> Dataset:
    order = np.random.default_rng(SPLIT_SEED).permutation(len(y))
    train, test = np.split(order, [len(y) - len(y) // HOLD_OUT])
    parts = x[train], y[train], x[test], y[test]
    for part in parts:
        part.setflags(write=False)
    return Dataset(name, *parts, num_classes=int(y.max()) + 1)


def _checked(
    path: Path, x: npt.NDArray[Any], y: npt.NDArray[Any], compute: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    for name, values in (("x", x), ("y", y)):
        if values.dtype.kind not in "biuf":
            raise DataError(f"{path}: {name} holds {values.dtype}: give it as integers or floats")
    if x.ndim < 2 or not x[:1].size:
        raise DataError(f"{path}: x has shape {x.shape}: give (samples, features), at least one of each")
    if y.ndim != 1:
        raise DataError(f"{path}: y has shape {y.shape}: give one label for each sample, as ({len(x)},)")
    if len(x) != len(y):
        raise DataError(f"{path}: {len(x)} samples in x, {len(y)} labels in y: give one for each sample")
    if len(x) < HOLD_OUT:
        raise DataError(f"{path}: {len(x)} samples, one in {HOLD_OUT} is held out: give {HOLD_OUT} or more")
    return _samples(path, x, compute), _labels(path, y)


def _samples(path: Path, x: npt.NDArray[Any], compute: str) -> npt.NDArray[np.float64]:
    with np.errstate(over="ignore"):
        flat = x.reshape(len(x), -1).astype(np.float64)
        narrow = flat.astype(compute)
    largest = f"{np.finfo(compute).max:.3g}"
    for faults, trouble, remedy in (
        (~np.isfinite(flat), "are NaN or inf", "replace them or leave their samples out"),
        (~np.isfinite(narrow), f"are beyond {compute}'s {largest}", "scale them, or take --dtype float64"),
    ):
        if faults.any():
            sample, column = divmod(int(faults.argmax()), flat.shape[1])
            raise DataError(
                f"{path}: {np.count_nonzero(faults)} of {flat.size} values {trouble}, the first in "
                f"sample {sample}, column {column} (from 0): {remedy}"
            )
    return flat


def _labels(path: Path, y: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    for faults, trouble in (
        (~np.isfinite(y), "are NaN or inf"),
        (y != np.floor(y), "are not whole numbers"),
        (y < 0, "are negative"),
        (y >= MAX_CLASSES, f"are {MAX_CLASSES} or more"),
    ):
        if faults.any():
            sample = int(faults.argmax())
            raise DataError(
                f"{path}: {np.count_nonzero(faults)} of {y.size} labels {trouble}, the first is {y[sample]} "
                f"in sample {sample} (from 0): number the classes 0, 1, 2, ..."
            )
    labels = y.astype(np.int64)
    if labels.min() == labels.max():
        raise DataError(f"{path}: all {y.size} labels are {labels[0]}: give samples of 2 or more classes")
    return labels
