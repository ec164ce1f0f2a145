"""Single iterations to be timed: with any strategy, with its communication taken out, and serially."""

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from collectives.communicator import Communicator
from collectives.ledger import Ledger
from collectives.transports.base import Transport
from collectives.transports.metered import MeteredTransport
from collectives.transports.mute import MuteTransport
from collectives.transports.stopwatch import StopwatchTransport
from zero_emulator.grid import Grid
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


class Seconds:
    """Time spent inside ``with``, added up since the last ``reset``."""

    def __init__(self) -> None:
        self.spent = self._start = 0.0

    def reset(self) -> None:
        self.spent = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.spent += time.perf_counter() - self._start


@dataclass(frozen=True)
class TimedAdam(Adam):
    """Adam, and the ``seconds`` that its updates take."""

    seconds: Seconds = field(default_factory=Seconds)

    def update(self, *arguments: Any, **options: Any) -> None:
        with self.seconds:
            super().update(*arguments, **options)


class TimedIteration:
    """A training iteration, with the seconds that it waits and updates; ``silent``, with nothing to train on.

    Then training sends no message, and calls are not compared. Ranks still tell each other their versions.
    """

    def __init__(self, strategy: str, size: Size, transport: Transport, *, silent: bool = False) -> None:
        if silent:
            transport = MuteTransport(transport, kinds=("training",))
        self.watch = StopwatchTransport(transport)
        self.ledger = Ledger()
        comm = Communicator(MeteredTransport(self.watch, self.ledger), check=not silent)
        partition = make_partition(size.layers(), Grid(transport.world_size))
        self.updating = Seconds()
        adam = TimedAdam(1e-3, seconds=self.updating)
        self.strategy = STRATEGIES[strategy](comm, partition, 0, find_precision("fp32"), adam)
        self.trainer = Trainer(partition.layers, softmax_cross_entropy, self.strategy)

    def __call__(self, x: Array, y: Array) -> None:
        self.watch.seconds = 0.0
        self.updating.reset()
        self.ledger.drain()
        with np.errstate(all="ignore"):  # what a silent iteration computes on is nonsense
            self.trainer.iterate(x, y)

    def waited_and_updated(self) -> tuple[float, float]:
        """Seconds of the last iteration on this rank."""
        return self.watch.seconds, self.updating.spent


class SerialIteration:
    """The same update on the global batch in one process."""

    def __init__(self, size: Size) -> None:
        self.layers = size.layers()
        self.parameters = initial_parameters(self.layers, 0, np.float32)
        self.optimizer = Adam(1e-3)
        self.states = [self.optimizer.new_state(p.size, p.dtype) for p in self.parameters]
        self.iteration = 0

    def __call__(self, x: Array, y: Array) -> None:
        self.iteration += 1
        _, gradients = loss_and_gradients(self.layers, self.parameters, softmax_cross_entropy, x, y, len(x))
        for params, gradient, state in zip(self.parameters, gradients, self.states, strict=True):
            self.optimizer.update(params, gradient, state, self.iteration)
