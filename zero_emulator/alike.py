"""Whether all ranks were told the same, before any of them starts."""

from hashlib import blake2b

import numpy as np

from collectives.transports.base import Transport
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset


def check_alike(config: RunConfig, dataset: Dataset, transport: Transport) -> None:
    """ValueError on all ranks unless they were told the same, and have the same data.

    Each rank updates its own block and the gathers make them alike: no audit sees that one used another rate.
    """
    data = blake2b(digest_size=16)
    for array in (dataset.train_x, dataset.train_y, dataset.test_x, dataset.test_y):
        data.update(np.ascontiguousarray(array).data)
    told = transport.exchange(config.as_json() | {"data": data.hexdigest()}, config.time_limit)
    for rank, settings in enumerate(told):
        for name, value in settings.items():
            if value != told[0][name]:
                raise ValueError(
                    f"rank 0 has {name} {told[0][name]}, rank {rank} has {value}: give all the same"
                )
