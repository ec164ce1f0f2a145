"""A toy data set, and a run on it by all ranks of the fixture ``run_ranks``."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pytest

from collectives.communicator import Communicator
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.layout import Array
from zero_emulator.run import Outcome, run


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


@pytest.fixture
def settings() -> dict[str, Any]:
    """What a test does not choose: blocks that are uneven, and rows that do not divide."""
    return {"hidden": (4, 3), "iterations": 2, "batch_size": 11, "lr": 0.02, "dtype": "float64"}


@pytest.fixture
def train(run_ranks: Callable[..., list[Any]], toy: Dataset, settings: dict[str, Any]) -> Train:
    def train(strategy: str, *, keep_events: bool = False, **chosen: Any) -> Outcome:
        config = RunConfig(strategy=strategy, **settings | chosen)

        def body(comm: Communicator) -> Outcome:
            return run(config, toy, comm.transport, keep_events=keep_events, poison=True)

        return run_ranks(body)[0]

    return train
