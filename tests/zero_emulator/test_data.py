"""Data sets: the digits, a user's own numbers and what they must be, and the walk of the batches."""

import hashlib
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from zero_emulator.data import DataError, Dataset, batch_indices, load_dataset

X = np.arange(20.0).reshape(10, 2)
Y = np.arange(10) % 3
LINES = [f"{a},{b},{label}" for (a, b), label in zip(X, Y, strict=True)]


def npz(folder: Path, **arrays: object) -> Path:
    path = folder / "own.npz"
    np.savez(path, **arrays)
    return path


def csv(folder: Path, *lines: str) -> Path:
    path = folder / "own.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def refusal(path: Path, compute: str = "float64") -> str:
    with pytest.raises(DataError) as caught:
        load_dataset(path, compute)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def everything(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([data.train_x, data.test_x]), np.concatenate([data.train_y, data.test_y])


# The digits


def test_the_digits_are_1797_images_of_64_pixels_in_ten_balanced_classes() -> None:
    digits = load_dataset(None)
    x, y = everything(digits)
    assert (digits.name, digits.num_classes) == ("digits", 10)
    assert (digits.train_x.shape, digits.test_x.shape) == ((1438, 64), (359, 64))
    assert (x.dtype, y.dtype, x.min(), x.max()) == (np.float64, np.int64, 0.0, 1.0)
    assert np.bincount(y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert np.bincount(digits.test_y).min() >= 25


def test_the_held_out_digits_are_the_same_on_every_machine() -> None:
    held_out = load_dataset(None).test_y.astype(np.uint8).tobytes()
    assert hashlib.sha256(held_out).hexdigest()[:16] == "1c7c8c730716a908"


def test_no_rank_can_write_into_a_data_set() -> None:
    with pytest.raises(ValueError, match="read-only"):
        load_dataset(None).train_x[0, 0] = 1.0


# What is accepted


def test_every_sample_keeps_its_numbers_and_its_label(tmp_path: Path) -> None:
    x, y = everything(load_dataset(npz(tmp_path, x=X, y=Y)))
    order = x[:, 0].argsort()
    np.testing.assert_array_equal(x[order], X)
    np.testing.assert_array_equal(y[order], Y)


@pytest.mark.parametrize("header", [(), ("width,height,class",), ("\ufeffwidth,height,class", "")])
def test_a_csv_gives_what_the_npz_gives_with_or_without_a_header(tmp_path: Path, header: tuple[str]) -> None:
    from_csv, from_npz = load_dataset(csv(tmp_path, *header, *LINES)), load_dataset(npz(tmp_path, x=X, y=Y))
    assert from_csv.name == "own.csv"
    for part in ("train_x", "train_y", "test_x", "test_y", "num_classes"):
        np.testing.assert_array_equal(getattr(from_csv, part), getattr(from_npz, part))


def test_images_are_flattened_to_one_row_a_sample(tmp_path: Path) -> None:
    assert load_dataset(npz(tmp_path, x=np.ones((10, 3, 4, 2), np.uint8), y=Y)).train_x.shape == (8, 24)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.uint64, np.float32, np.float64])
def test_whole_numbers_of_any_dtype_are_labels_and_may_leave_gaps(tmp_path: Path, dtype: type) -> None:
    data = load_dataset(npz(tmp_path, x=X, y=(Y * 4).astype(dtype)))
    assert data.num_classes == 9
    assert (data.train_y.dtype, set(everything(data)[1].tolist())) == (np.int64, {0, 4, 8})


@pytest.mark.parametrize(("num_samples", "held_out"), [(5, 1), (9, 1), (10, 2), (14, 2), (101, 20)])
def test_a_fifth_rounded_down_is_held_out(tmp_path: Path, num_samples: int, held_out: int) -> None:
    data = load_dataset(npz(tmp_path, x=np.ones((num_samples, 1)), y=np.arange(num_samples)))
    assert len(data.test_y) == held_out
    assert sorted(everything(data)[1]) == list(range(num_samples))


# What is refused: the numbers


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X[:7], Y, "7 samples in x, 10 labels in y: "),
        (X[:4], Y[:4], "4 samples, one in 5 is held out: give 5 or more"),
        (X[:, 0], Y, "x has shape (10,): give (samples, features)"),
        (X[:, :0], Y, "x has shape (10, 0): give (samples, features)"),
        (X[:0], Y[:0], "x has shape (0, 2): give (samples, features)"),
        (X, np.eye(10), "y has shape (10, 10): give one label for each sample, as (10,)"),
        (X.astype(str), Y, "x holds <U32: give it as integers or floats"),
        (X * 1j, Y, "x holds complex128: give it as integers or floats"),
        (X, Y.astype(str), "y holds <U21: give it as integers or floats"),
        (X, Y * 0 + 3, "all 10 labels are 3: give samples of 2 or more classes"),
        (X, Y / 2, "3 of 10 labels are not whole numbers, the first is 0.5 in sample 1 (from 0): "),
        (X, Y - 1, "4 of 10 labels are negative, the first is -1 in sample 0 (from 0): "),
        (X, Y * 9999, "3 of 10 labels are 10000 or more, the first is 19998 in sample 2 (from 0): "),
        (
            X,
            np.where(Y == 2, np.nan, Y),
            "3 of 10 labels are NaN or inf, the first is nan in sample 2 (from 0)",
        ),
    ],
)
def test_unfit_arrays_are_refused_with_their_numbers(
    tmp_path: Path, x: np.ndarray, y: np.ndarray, message: str
) -> None:
    assert refusal(npz(tmp_path, x=x, y=y)).startswith(message)


def test_nan_and_inf_are_counted_and_the_first_is_located(tmp_path: Path) -> None:
    x = X.copy()
    x[4, 1] = np.nan
    x[7] = np.inf
    message = "3 of 20 values are NaN or inf, the first in sample 4, column 1 (from 0): "
    assert refusal(npz(tmp_path, x=x, y=Y)).startswith(message)
    lines = [f"{a},{b},{label}" for (a, b), label in zip(x, Y, strict=True)]
    assert refusal(csv(tmp_path, *lines)).startswith(message)


def test_numbers_that_the_dtype_computed_in_cannot_hold_are_refused(tmp_path: Path) -> None:
    x = X.copy()
    x[4, 1] = x[7, 0] = -1e300
    path = npz(tmp_path, x=x, y=Y)
    assert refusal(path, "float32") == (
        "2 of 20 values are beyond float32's 3.4e+38, the first in sample 4, column 1 (from 0): "
        "scale them, or take --dtype float64"
    )
    np.testing.assert_array_equal(np.sort(everything(load_dataset(path, "float64"))[0], 0), np.sort(x, 0))


# Batches


@pytest.mark.parametrize(
    ("num_samples", "batch_size"), [(1, 1), (7, 1), (7, 3), (7, 7), (12, 4), (1438, 256)]
)
def test_every_epoch_holds_every_sample_once_and_every_batch_is_full(
    num_samples: int, batch_size: int
) -> None:
    batches = list(batch_indices(num_samples, batch_size, 3 * num_samples, seed=5))
    assert {batch.shape for batch in batches} == {(batch_size,)}
    assert {batch.dtype for batch in batches} == {np.dtype(np.int64)}
    epochs = np.concatenate(batches).reshape(-1, num_samples)
    assert len(epochs) == 3 * batch_size
    assert (np.sort(epochs, axis=1) == np.arange(num_samples)).all()


def test_epochs_differ_and_seeds_differ() -> None:
    one, two = batch_indices(50, 50, 2, seed=1)
    (other,) = batch_indices(50, 50, 1, seed=2)
    assert one.tolist() != two.tolist()
    assert one.tolist() != other.tolist()


def test_a_seed_gives_the_same_batches_again_however_many_are_asked_for() -> None:
    few = list(batch_indices(30, 8, 5, seed=3))
    many = list(islice(batch_indices(30, 8, 500, seed=3), 5))
    np.testing.assert_array_equal(few, many)


@pytest.mark.parametrize("batch_size", [-1, 0, 31])
def test_a_batch_that_no_epoch_can_fill_is_refused_at_once(batch_size: int) -> None:
    with pytest.raises(ValueError, match=f"a batch of {batch_size} out of 30 samples: take 1 to 30"):
        batch_indices(30, batch_size, 1, seed=0)


@pytest.mark.parametrize(("iterations", "seed"), [(-1, 0), (1, -1)])
def test_negative_iterations_or_seeds_are_refused_at_once(iterations: int, seed: int) -> None:
    with pytest.raises(ValueError, match=f"{iterations} iterations with seed {seed}: give 0 or more"):
        batch_indices(30, 8, iterations, seed)
