"""`train --save`: the trained weights in a file, whole or not there, and never in place of another."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectives.transports.threads import run_threads
from zero_emulator.config import RunConfig
from zero_emulator.data import load_dataset
from zero_emulator.run import run
from zero_emulator.weight_files import load_weights

SMALL = ("--hidden", "6,4", "--iterations", "2", "--batch-size", "8", "--transport", "threads")


@pytest.mark.parametrize(
    "settings",
    [
        {"precision": "fp64"},
        {"precision": "bf16", "padding": "rows"},
        {"precision": "fp32", "pipeline": 2, "strategy": "ddp"},
    ],
)
def test_the_saved_weights_are_those_that_were_trained(
    command: Any, folder: Path, settings: dict[str, Any]
) -> None:
    options = [word for name, value in settings.items() for word in (f"--{name}", value)]
    code, out, err = command("train", *SMALL, *options, "--ranks", 2, "--save", "w.npz")
    assert (code, err) == (0, "")
    assert "verdict pass" in out
    assert [path.name for path in folder.iterdir()] == ["w.npz"]
    config = RunConfig(hidden=(6, 4), iterations=2, batch_size=8, **settings)
    digits = load_dataset(None)
    outcome = run_threads(2, lambda transport: run(config, digits, transport))[0]
    layers = config.partition(digits, 2).layers
    loaded = load_weights(Path("w.npz"), 64, 10, config.policy.compute).weights
    for layer, trained, saved in zip(layers, outcome.weights, loaded, strict=True):
        kept = np.concatenate([tensor.ravel() for tensor in layer.layout.views(trained).values()])
        np.testing.assert_array_equal(saved, kept)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--save", "taken"), "taken: a directory: name a file in it"),
        (("--save", "no/w.npz"), "no/w.npz: there is no directory"),
        (("--save", "x", "--record", "x"), "--record and --save are both x: name two files"),
        (("--save", "x", "--events", "./x"), "--events and --save are both x: name two files"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_start(
    command: Any, folder: Path, monkeypatch: Any, options: tuple[str, ...], message: str
) -> None:
    monkeypatch.setattr("collectives.ranks.run_threads", None)
    Path("taken").mkdir()
    code, out, err = command("train", *SMALL, *options)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert message in err
    assert [path.name for path in folder.iterdir()] == ["taken"]


def test_layers_that_the_file_has_no_names_for_are_refused_before_the_start(
    command: Any, folder: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("collectives.ranks.run_threads", None)
    code, out, err = command("train", *SMALL, "--experts", 2, "--save", "w.npz")
    assert (code, out) == (2, "")
    assert err == (
        "zero-emulator: layer 1 is a Router, and only an MLP of Linear can be saved: drop --save, or what "
        "makes such layers, as --experts\n"
    )


def test_a_disk_that_is_full_does_not_cost_the_verdict(command: Any, folder: Path, monkeypatch: Any) -> None:
    def full(path: Path, lines: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zero_emulator.outputs.write_whole", full)
    code, out, err = command("train", *SMALL, "--save", "w.npz", "--quiet")
    assert (code, out) == (2, "verdict pass\n")
    assert err == (
        "zero-emulator: w.npz could not be written (No space left on device): name another place\n"
    )
