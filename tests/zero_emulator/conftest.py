"""The command in this process; a toy data set, and a run on it by all ranks of the fixture ``run_ranks``."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

import numpy as np
import pytest

from collectives.communicator import Communicator
from zero_emulator.cli import main
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.layout import Array
from zero_emulator.padding import PADDINGS
from zero_emulator.precision import ITEMSIZE, PRECISIONS
from zero_emulator.run import Outcome, run
from zero_emulator.theory import PLAIN


class Train(Protocol):
    """Train a small model on the toy data on every rank; rank 0's outcome. Keywords go into RunConfig."""

    def __call__(self, strategy: str, **settings: Any) -> Outcome: ...


def _points(rng: np.random.Generator, rows: int) -> tuple[Array, Array]:
    x = rng.standard_normal((rows, 5))
    return x, np.argmax(x[:, :3] + x[:, 2:], axis=1)


@pytest.fixture(scope="session")
def toy() -> Dataset:
    """40 points of 5 features, and which of 3 sums of them is the largest."""
    rng = np.random.default_rng(7)
    return Dataset("toy", *_points(rng, 40), *_points(rng, 10), num_classes=3)


@pytest.fixture(scope="session")
def even() -> Dataset:
    """40 points of 7 features in 8 classes: layers between widths of 8 have 64 and 72 parameters."""
    x = np.random.default_rng(3).standard_normal((40, 7))
    return Dataset("even", x, np.arange(40) % 8, x[:8], np.arange(8), num_classes=8)


@pytest.fixture(scope="session")
def spoilt(toy: Dataset) -> Dataset:
    """The same with an infinite feature in one point of eight: where ranks vote, they skip some updates."""
    x = toy.train_x.copy()
    x[::8, 0] = np.inf
    return replace(toy, train_x=x)


@pytest.fixture
def settings() -> dict[str, Any]:
    """What a test does not choose: blocks that are uneven, and rows that do not divide."""
    return {"hidden": (4, 3), "iterations": 2, "batch_size": 11, "lr": 0.02, "dtype": "float64"}


class AnyRun(Protocol):
    """Options that go together, of anything that changes what is sent or kept, for a small model."""

    def __call__(self, rng: Random) -> dict[str, Any]: ...


@pytest.fixture(scope="session")
def any_run() -> AnyRun:
    """Drawn from a seed: hypothesis would draw what resembles its last draw, and leave half of it out."""

    def any_run(rng: Random) -> dict[str, Any]:
        layouts = [("even", padding) for padding in PADDINGS] + [("layers", "none")]
        cut, padding = rng.choice(layouts)
        return {
            "strategy": rng.choice(list(PLAIN)),
            "hidden": tuple(rng.randint(1, 6) for _ in range(rng.randint(0, 2))),
            "iterations": rng.randint(1, 3),
            "batch_size": rng.randint(1, 9),
            "micro_batches": rng.randint(1, 3),
            "keep_views": rng.choice(["none", "last", "all"]),
            "prefetch": rng.randint(0, 4),
            "precision": rng.choice(list(PRECISIONS)),
            "grad_dtype": rng.choice([None, *ITEMSIZE]),
            "reduce_dtype": rng.choice([None, *ITEMSIZE]),
            "param_wire_dtype": rng.choice([None, "float64"]),  # the one that holds every weight
            "clip": rng.choice([None, 0.1]),
            "padding": padding,
            "cut": cut,
            "audit_every": rng.randint(1, 3),
            **rng.choice(
                [
                    {"optimizer": "sgd"},
                    {"optimizer": "sgd", "momentum": 0.5},
                    {"optimizer": "adam"},
                    {"optimizer": "muon"},
                ]
            ),
        }

    return any_run


@pytest.fixture
def train(run_ranks: Callable[..., list[Any]], toy: Dataset, settings: dict[str, Any]) -> Train:
    def train(strategy: str, *, keep_events: bool = False, data: Dataset = toy, **chosen: Any) -> Outcome:
        config = RunConfig(strategy=strategy, **settings | chosen)

        def body(comm: Communicator) -> Outcome:
            return run(config, data, comm.transport, keep_events=keep_events, poison=True)

        return run_ranks(body)[0]

    return train


@pytest.fixture
def command(monkeypatch: Any, capsys: Any) -> Any:
    """Run the command in this process: exit code, stdout, stderr."""

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["zero-emulator", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Any) -> Path:
    """An empty directory to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
