"""Sizes that ranks tell each other before the data itself: control bytes, counted as such."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from collectives.communicator import Communicator

Lengths = npt.NDArray[np.int64]


@contextmanager
def control(communicator: Communicator) -> Iterator[None]:
    """What is started inside counts as control, from the same place in the user's program."""
    with communicator.labelled(communicator.label._replace(kind="control")):
        yield


def gather_lengths(communicator: Communicator, length: int) -> list[int]:
    """Every rank's, on every rank."""
    everyones = np.empty(communicator.world_size, np.int64)
    with control(communicator):
        communicator.all_gather(np.array([length]), everyones, sizes=[1] * communicator.world_size).wait()
    return [int(one) for one in everyones]
