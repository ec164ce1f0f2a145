"""The same model through every strategy and serially: bit for bit alike, and close to serial."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from collectives.transports.base import Transport
from zero_emulator.batches import global_batches
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.layout import Array
from zero_emulator.losses import LOSSES
from zero_emulator.model import initial_parameters
from zero_emulator.run import Outcome
from zero_emulator.serial import train_serially
from zero_emulator.strategies import STRATEGIES

SERIAL_TOLERANCE = {"float64": 1e-12, "float32": 1e-3}
"""Absolute, in a parameter, by the dtype of the weights. Sums in another order drift apart with every
iteration, by rounding alone; what narrower weights lose by it is shown, not judged."""


@dataclass(frozen=True)
class Comparison:
    """Every strategy's run, and the largest difference of its parameters from those of serial training."""

    outcomes: dict[str, Outcome]
    differences: dict[str, float]

    def disagreements(self, micro_batches: int) -> list[str]:
        """Strategies that must agree bit for bit after every iteration, and do not.

        All four with one micro-batch; with more, those that reduce once an iteration and those that reduce
        every micro-batch add in different orders.
        """
        found = []
        for group in must_agree(micro_batches):
            first = self.outcomes[group[0]].digests
            for other in group[1:]:
                digests = self.outcomes[other].digests
                apart = [iteration for iteration in first if digests[iteration][0] != first[iteration][0]]
                if apart:
                    found.append(f"{other} differs from {group[0]} from iteration {apart[0]} on")
        return found


def must_agree(micro_batches: int) -> tuple[tuple[str, ...], ...]:
    """Groups of strategies that must give the same bits."""
    if micro_batches == 1:
        return (tuple(STRATEGIES),)
    return ("ddp", "zero1"), ("zero2", "zero3")


def compare(
    config: RunConfig,
    dataset: Dataset,
    transport: Transport,
    *,
    run_one: Callable[[RunConfig], Outcome],
) -> Comparison:
    """Run every strategy, then train serially on rank 0; all ranks get the same comparison."""
    outcomes = {name: run_one(replace(config, strategy=name)) for name in STRATEGIES}
    differences: dict[str, float] = {}
    if transport.rank == 0:
        serial = serial_weights(config, dataset)
        differences = {
            name: largest_difference(outcome.weights, serial) for name, outcome in outcomes.items()
        }
    return Comparison(outcomes, transport.exchange(differences)[0])


def serial_weights(config: RunConfig, dataset: Dataset) -> list[Array]:
    """The parameters after the same training in one process."""
    layers = config.make_layers(dataset)
    weights = initial_parameters(layers, config.seed, config.policy.compute)
    train_serially(
        layers,
        weights,
        config.make_optimizer(),
        LOSSES[config.loss],
        global_batches(config, dataset),
        micro_batches=config.micro_batches,
        max_norm=config.clip,
    )
    return weights


def largest_difference(left: list[Array], right: list[Array]) -> float:
    """The largest absolute difference between two sets of parameters; NaN if either has one."""
    pairs = zip(left, right, strict=True)
    return float(np.max([np.max(np.abs(a - b), initial=0.0) for a, b in pairs]))  # NaN stays NaN
