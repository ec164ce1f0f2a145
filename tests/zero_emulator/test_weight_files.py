"""Weights in a file: what is saved comes back, and whatever is wrong with a file is said in one line."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zero_emulator.dtypes import dtype_of
from zero_emulator.model import build_mlp, initial_parameters
from zero_emulator.npz_files import DataError
from zero_emulator.precision import ITEMSIZE
from zero_emulator.weight_files import load_weights, save_weights

SIZES = (5, 4, 3)
LAYERS = build_mlp(SIZES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "frozen.npz"


def arrays() -> dict[str, Any]:
    return {
        "layer0.weight": np.ones((5, 4)),
        "layer0.bias": np.zeros(4),
        "layer1.weight": np.ones((4, 3), np.float32),
        "layer1.bias": np.zeros(3),
    }


@pytest.mark.parametrize("dtype", ITEMSIZE)
@pytest.mark.parametrize("padding", ["none", "rows", "2n"])
def test_what_is_saved_comes_back_without_padding(path: Path, dtype: str, padding: str) -> None:
    layers = [layer.padded(padding, 4) for layer in LAYERS]
    weights = initial_parameters(layers, 1, dtype_of(dtype))
    save_weights(path, layers, weights)
    loaded = load_weights(path, 5, 3, dtype)
    assert loaded.layers == LAYERS
    for wanted, found in zip(initial_parameters(LAYERS, 1, dtype_of(dtype)), loaded.weights, strict=True):
        assert found.dtype == wanted.dtype
        assert found.base is None, "a view would keep the file's arrays alive"
        np.testing.assert_array_equal(found, wanted)


def test_the_file_holds_each_tensor_under_its_name(path: Path) -> None:
    weights = initial_parameters(LAYERS, 1, np.float32)
    save_weights(path, LAYERS, weights)
    with np.load(path) as saved:
        assert {name: (saved[name].shape, saved[name].dtype) for name in saved.files} == {
            "layer0.weight": ((5, 4), np.float32),
            "layer0.bias": ((4,), np.float32),
            "layer1.weight": ((4, 3), np.float32),
            "layer1.bias": ((3,), np.float32),
        }
        np.testing.assert_array_equal(saved["layer0.weight"].ravel(), weights[0][:20])


def test_the_same_weights_make_the_same_bytes(path: Path) -> None:
    contents = []
    for _ in range(2):
        save_weights(path, LAYERS, initial_parameters(LAYERS, 1, np.float32))
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]


def test_what_is_no_mlp_is_not_saved_and_what_stood_there_remains(path: Path) -> None:
    path.write_text("before")
    with pytest.raises(ValueError, match="layer 1 is a Router, and only an MLP of Linear can be saved"):
        save_weights(path, [LAYERS[0], type("Router", (), {})()], initial_parameters(LAYERS, 1, np.float32))
    assert path.read_text() == "before"
    assert os.listdir(path.parent) == [path.name]


def refusal(path: Path, dtype: str = "float64", **changed: object) -> str:
    """Of a file with these arrays changed, or left out."""
    held = {name: array for name, array in (arrays() | changed).items() if array is not None}
    np.savez(path, **held)
    return refused(path, dtype)


def refused(path: Path, dtype: str = "float64") -> str:
    with pytest.raises(DataError) as caught:
        load_weights(path, 5, 3, dtype)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_files_of_several_dtypes_are_cast_to_one(path: Path) -> None:
    np.savez(path, **arrays())
    assert {array.dtype for array in load_weights(path, 5, 3, "float32").weights} == {np.dtype("float32")}


def test_what_is_no_npz_says_so(path: Path) -> None:
    assert refused(path) == "no such file: check the path"
    path.touch()
    assert refused(path) == "the file is empty, 0 bytes: name a .npz file"
    path.write_bytes(b"hello")
    assert refused(path).endswith("write it with train --save FILE.npz")
    path.unlink()
    path.mkdir()
    assert refused(path) == "a directory: name a .npz file in it"


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({"layer1.bias": None}, "no array layer1.bias among 3 ['layer0.weight', "),
        (
            {"layer0.weight": None, "layer0.bias": None},
            "no array layer0.weight and no array layer0.bias among 2",
        ),
        ({"layer3.weight": np.ones(1)}, "no array layer2.weight and no array layer2.bias among 5"),
        ({"x": np.ones(1), "y": np.ones(1)}, "no array layer2.weight and no array layer2.bias among 6"),
        (dict.fromkeys(arrays()), "no array layer0.weight and no array layer0.bias among 0 []"),
    ],
)
def test_layers_that_are_missing_are_named(path: Path, changed: dict[str, object], missing: str) -> None:
    assert refusal(path, **changed).startswith(missing)


@pytest.mark.parametrize(
    ("changed", "trouble"),
    [
        ({"layer0.bias": np.zeros(5)}, "layer0 has a weight (5, 4) and a bias (5,): give"),
        ({"layer0.bias": np.zeros((1, 4))}, "layer0 has a weight (5, 4) and a bias (1, 4): give"),
        ({"layer1.weight": np.zeros(4)}, "layer1 has a weight (4,) and a bias (3,): give"),
        ({"layer1.weight": np.float64(1)}, "layer1 has a weight () and a bias (3,): give"),
        ({"layer0.weight": np.zeros((0, 4))}, "layer0 has a weight (0, 4) and a bias (4,): give"),
        ({"layer1.weight": np.zeros((6, 3))}, "layer1 takes 6 inputs, and layer0 has 4 outputs: give"),
        ({"layer0.weight": np.zeros((6, 4))}, "a model of 6 inputs, the data set has 5: train"),
        (
            {"layer1.weight": np.zeros((4, 2)), "layer1.bias": np.zeros(2)},
            "a model of 2 classes, the data set has 3: train",
        ),
        (
            {"layer0.bias": np.zeros(4, int)},
            "layer0.bias holds int64: give it as float64, float32 or",
        ),
        ({"layer0.bias": np.array(["a"] * 4)}, "layer0.bias holds <U1: give"),
        ({"layer0.bias": np.zeros(4, complex)}, "layer0.bias holds complex128: give"),
        (
            {"layer0.bias": np.array([None] * 4)},
            "array layer0.bias cannot be read (Object arrays cannot be",
        ),
        (
            {"layer1.weight": np.where(np.eye(4, 3) > 0, np.nan, 1)},
            "3 of 12 numbers of layer1.weight are NaN or inf, the first at (0, 0): train it anew",
        ),
    ],
)
def test_arrays_that_make_no_model_for_the_data_are_refused(
    path: Path, changed: dict[str, object], trouble: str
) -> None:
    assert refusal(path, **changed).startswith(trouble)


def test_numbers_that_the_dtype_cannot_hold_are_refused(path: Path) -> None:
    bias = np.array([0, 0, 1e5, 0])
    assert refusal(path, "float16", **{"layer0.bias": bias}) == (
        "1 of 4 numbers of layer0.bias are beyond float16, the first at (2,): compute in a wider dtype"
    )
    assert load_weights(path, 5, 3, "bfloat16").weights[0].dtype == dtype_of("bfloat16")
