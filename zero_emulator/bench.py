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

from collectives.communicator import Communicator
from collectives.ledger import Ledger
from collectives.transports.base import Transport
from collectives.transports.metered import MeteredTransport
from collectives.transports.mute import MuteTransport
from collectives.transports.stopwatch import StopwatchTransport
from zero_emulator.layout import Array
from zero_emulator.losses import softmax_cross_entropy
from zero_emulator.model import Linear, build_mlp, initial_parameters
from zero_emulator.optimizers import Adam
from zero_emulator.partition import make_partition
from zero_emulator.precision import find_precision
from zero_emulator.serial import loss_and_gradients
from zero_emulator.strategies import STRATEGIES
from zero_emulator.trainer import Trainer

NUM_CLASSES = 10


class Size(NamedTuple):
    """A model and the samples that each rank computes on."""

    width: int
    num_layers: int
    rows_a_rank: int

    def layers(self) -> tuple[Linear, ...]:
        return build_mlp((self.width,) * self.num_layers + (NUM_CLASSES,))


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


def time_strategies(name: str, transport: Transport, *, pairs: int) -> list[IterationTime]:
    """Every strategy at one size: ``pairs`` times an iteration, the same one silenced, and the serial one."""
    size = SIZES[name]
    rng = np.random.default_rng(0)
    rows = size.rows_a_rank * transport.world_size
    x = rng.standard_normal((rows, size.width)).astype(np.float32)
    y = rng.integers(NUM_CLASSES, size=rows)
    serial = _SerialIteration(size, x, y)
    found = []
    for strategy in STRATEGIES:
        real, silent = (
            _Iteration(strategy, size, transport),
            _Iteration(strategy, size, transport, silent=True),
        )
        rounds = []
        for _ in range(pairs + 1):
            rounds.append(
                (
                    _time(transport, lambda real=real: real(x, y)),  # type: ignore[misc]
                    _time(transport, lambda silent=silent: silent(x, y)),  # type: ignore[misc]
                    _time(transport, serial if transport.rank == 0 else lambda: None),
                    *real.waited_and_updated(),
                )
            )
        del rounds[0]  # warms up
        found.append(
            IterationTime(
                name,
                strategy,
                sum(layer.layout.size for layer in size.layers()),
                median(one[0] for one in rounds),
                median(one[0] / one[1] for one in rounds),
                median(one[0] / one[2] for one in rounds),
                median(1 - (one[3] + one[4]) / one[0] for one in rounds),
                median(one[3] / one[0] for one in rounds),
                median(one[4] / one[0] for one in rounds),
            )
        )
    return found


def _time(transport: Transport, function: Callable[[], object]) -> float:
    transport.exchange(None)
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


class _Iteration:
    """A training iteration, with the time that it waits and updates."""

    def __init__(self, strategy: str, size: Size, transport: Transport, *, silent: bool = False) -> None:
        self.watch = StopwatchTransport(MuteTransport(transport) if silent else transport)
        self.ledger = Ledger()
        comm = Communicator(MeteredTransport(self.watch, self.ledger))
        partition = make_partition(size.layers(), transport.world_size)
        self.strategy = STRATEGIES[strategy](comm, partition, 0, find_precision("fp32"), Adam(1e-3))
        self.updated = 0.0
        update = self.strategy.update

        def timed_update() -> None:
            start = time.perf_counter()
            update()
            self.updated += time.perf_counter() - start

        self.strategy.update = timed_update  # type: ignore[method-assign]
        if silent:  # where nothing arrives no version can be right
            comm.check = False
            self.strategy.check_version = lambda layer, versions: None  # type: ignore[method-assign]
        self.trainer = Trainer(partition.layers, softmax_cross_entropy, self.strategy)

    def __call__(self, x: Array, y: Array) -> None:
        self.watch.seconds = self.updated = 0.0
        self.ledger.drain()
        with np.errstate(all="ignore"):  # what a silent iteration computes on is nonsense
            self.trainer.iterate(x, y)

    def waited_and_updated(self) -> tuple[float, float]:
        return self.watch.seconds, self.updated


class _SerialIteration:
    """The same update on the global batch in one process."""

    def __init__(self, size: Size, x: Array, y: Array) -> None:
        self.layers, self.x, self.y = size.layers(), x, y
        self.parameters = initial_parameters(self.layers, 0, np.float32)
        self.optimizer = Adam(1e-3)
        self.states = [self.optimizer.new_state(p.size, p.dtype) for p in self.parameters]
        self.iteration = 0

    def __call__(self) -> None:
        self.iteration += 1
        _, gradients = loss_and_gradients(
            self.layers, self.parameters, softmax_cross_entropy, self.x, self.y, len(self.x)
        )
        for params, gradient, state in zip(self.parameters, gradients, self.states, strict=True):
            self.optimizer.update(params, gradient, state, self.iteration)
