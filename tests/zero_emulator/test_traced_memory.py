"""tracemalloc, which sees NumPy's allocations without us, agrees with the meter on a large model.

It counts a whole process. So here is one rank alone, whose messages are taken as landed: what it allocates
does not depend on them. tests/mpi has the same on real ranks.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest

from collectives.communicator import Communicator
from collectives.transports.mute import MuteTransport
from collectives.transports.threads import ThreadWorld
from zero_emulator.config import RunConfig
from zero_emulator.expected_memory import expected_peak, expected_persistent
from zero_emulator.strategies.base import Strategy
from zero_emulator.strategies.zero3 import Zero3

RANKS = 4
SETTINGS = [
    {"strategy": "zero3", "prefetch": prefetch, "keep_views": keep_views}
    for prefetch, keep_views in ((0, "none"), (2, "none"), (1, "all"))
]
OTHERS = [{"strategy": strategy} for strategy in ("ddp", "zero1", "zero2")]
NARROW = [one | {"precision": "bf16", "micro_batches": 2} for one in (*OTHERS, SETTINGS[-1])]


@pytest.fixture
def alone(monkeypatch: Any, wide: Any, traced: Any) -> Any:
    """One rank's traced memory, with the configuration and the partition."""
    monkeypatch.setattr(Strategy, "check_version", lambda self, layer, versions: None)  # none has come

    def alone(**chosen: Any) -> Any:
        config = RunConfig(**{"hidden": (wide.train_x.shape[1],) * 7, "batch_size": 32} | chosen)
        transport = MuteTransport(ThreadWorld(RANKS).transport(1))
        with np.errstate(all="ignore"):
            found = traced(transport, partial(Communicator, check=False), config, wide)
        return found, config, config.partition(wide, RANKS)

    return alone


@pytest.mark.parametrize(
    "chosen", [*SETTINGS, *OTHERS, *NARROW], ids=lambda one: "-".join(map(str, one.values()))
)
def test_tracemalloc_agrees_within_three_percent(alone: Any, chosen: dict[str, Any]) -> None:
    found, config, partition = alone(**chosen)
    assert found.peak == expected_peak(config, partition, 1)
    persistent = sum(expected_persistent(config, partition, 1).values())
    assert sum(found.persistent.values()) == persistent
    assert found.traced_persistent == pytest.approx(persistent, rel=0.03)
    assert found.traced_peak == pytest.approx(found.peak.total, rel=0.03)


def test_what_the_meter_is_not_told_of_is_traced(alone: Any, monkeypatch: Any) -> None:
    reshard = Zero3.reshard

    def hoarding(self: Zero3) -> None:
        self.hoard = self.gathered[self.visits[self.at].gather].view.copy()  # type: ignore[attr-defined]
        reshard(self)

    monkeypatch.setattr(Zero3, "reshard", hoarding)
    found, config, partition = alone(strategy="zero3")
    assert found.peak == expected_peak(config, partition, 1)
    assert found.traced_peak > 1.05 * found.peak.total
    assert found.traced_persistent > 1.05 * sum(found.persistent.values())
