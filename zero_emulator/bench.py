"""How long an iteration takes, as ratios: with communication to without, with ranks to serially.

Times on a machine with fewer cores than ranks say nothing of a cluster; ratios of pairs in one run say what
the engine and the strategies cost.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from collectives.transports.base import Transport
from zero_emulator.layout import Array
from zero_emulator.theory import PLAIN
from zero_emulator.timed_iterations import NUM_CLASSES, SerialIteration, Size, TimedIteration

SIZES = {"toy": Size(64, 3, 32), "middle": Size(256, 4, 64), "large": Size(1024, 8, 64)}


@dataclass(frozen=True)
class IterationTime:
    """One strategy at one size, medians on rank 0: seconds of an iteration, ratios, shares of its time."""

    size: str
    strategy: str
    num_params: int
    seconds: float
    over_silent: float  # to the same one with the communication taken out
    over_serial: float  # to the global batch in one process
    computing: float  # shares of the iteration; reductions are computing
    waiting: float
    updating: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Round(NamedTuple):
    """Seconds of one iteration of each kind, one after the other, and of what the first one did."""

    real: float
    silent: float
    serial: float
    waited: float
    updated: float


def time_strategies(name: str, transport: Transport, *, pairs: int) -> list[IterationTime]:
    """Every strategy at one size: ``pairs`` times an iteration, the same one silenced, and the serial one."""
    size = SIZES[name]
    rng = np.random.default_rng(0)
    rows = size.rows_a_rank * transport.world_size
    x = rng.standard_normal((rows, size.width)).astype(np.float32)
    y = rng.integers(NUM_CLASSES, size=rows)
    num_params = sum(layer.layout.num_params for layer in size.layers())
    found = []
    for strategy in PLAIN:
        rounds = _rounds(strategy, size, transport, x, y, pairs=pairs)
        found.append(
            IterationTime(
                name,
                strategy,
                num_params,
                seconds=median(one.real for one in rounds),
                over_silent=median(one.real / one.silent for one in rounds),
                over_serial=median(one.real / one.serial for one in rounds),
                computing=median(1 - (one.waited + one.updated) / one.real for one in rounds),
                waiting=median(one.waited / one.real for one in rounds),
                updating=median(one.updated / one.real for one in rounds),
            )
        )
    return found


def _rounds(
    strategy: str, size: Size, transport: Transport, x: Array, y: Array, *, pairs: int
) -> list[Round]:
    real = TimedIteration(strategy, size, transport)
    silent = TimedIteration(strategy, size, transport, silent=True)
    serial = SerialIteration(size) if transport.rank == 0 else _nothing
    rounds = [
        Round(
            _time(transport, real, x, y),
            _time(transport, silent, x, y),
            _time(transport, serial, x, y),
            *real.waited_and_updated(),
        )
        for _ in range(pairs + 1)
    ]
    return rounds[1:]  # the first warms up


def _nothing(x: Array, y: Array) -> None:
    """What the other ranks do while rank 0 trains serially."""


def _time(transport: Transport, iteration: Callable[[Array, Array], None], x: Array, y: Array) -> float:
    transport.exchange(None)
    start = time.perf_counter()
    iteration(x, y)
    return time.perf_counter() - start
