"""Whether all ranks were told the same, before any of them starts."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from collectives.transports.base import Transport
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.weight_files import Model


def check_alike(
    config: RunConfig, dataset: Dataset, transport: Transport, frozen: Model | None = None
) -> None:
    """ValueError on all ranks unless they were told the same, and have the same data and reference.

    Each rank updates its own block and the gathers make them alike: no audit sees that one used another rate.
    """
    held = {
        "data": _digest((dataset.train_x, dataset.train_y, dataset.test_x, dataset.test_y)),
        "reference weights": None if frozen is None else _digest(frozen.weights),
    }
    told = transport.exchange(config.as_json() | held, config.time_limit)
    for rank, settings in enumerate(told):
        for name, value in settings.items():
            if value != told[0][name]:
                raise ValueError(
                    f"rank 0 has {name} {told[0][name]}, rank {rank} has {value}: give all the same"
                )


def _digest(arrays: Iterable[npt.NDArray[Any]]) -> str:
    digest = blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)  # bfloat16 has no buffer of its own
    return digest.hexdigest()
