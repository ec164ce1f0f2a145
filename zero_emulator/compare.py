"""The same model through every strategy and serially: bit for bit alike, and close to serial."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from collectives.transports.base import Transport
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.differences import distance, largest_difference, relative_difference
from zero_emulator.expected_memory import too_large
from zero_emulator.expected_traffic import first_update, training_uses
from zero_emulator.model import initial_parameters
from zero_emulator.outcome import Outcome
from zero_emulator.reference import SerialRun, first_gradients, serial_run
from zero_emulator.strategies import STRATEGIES
from zero_emulator.weight_files import Model

SERIAL_TOLERANCE = {"float64": 1e-12, "float32": 1e-3}
"""Absolute, in a parameter, by the coarsest dtype. Sums in another order drift apart with every iteration, by
rounding alone: narrower dtypes so far that DRIFT_TOLERANCE holds them."""

DRIFT_TOLERANCE = {"float16": 0.3, "bfloat16": 0.3}
"""How far from serial training the weights may end, as a part of the way that it has gone, by the coarsest
dtype. Rounding alone makes 0.01 to 0.11 on the digits, in 3 to 50 iterations of any optimizer."""

GRADIENT_TOLERANCE = {"float64": 1e-12, "float32": 1e-4, "float16": 0.1, "bfloat16": 0.1}
"""Error of the gradient of the first update, relative to its largest element, by the coarsest dtype. No drift
here, so a wrong factor cannot hide."""


@dataclass(frozen=True)
class Comparison:
    """Every strategy's run, and how far it is from serial training, the most on any rank.

    ``differences`` are of parameters, ``loss_differences`` of the loss in any iteration, ``drifts`` of all
    parameters beside the way that serial training has gone, ``gradient_errors`` of the first update's
    gradient, relative.
    ``too_large`` were not run: the peaks of strategies that do not fit the device, by their closed forms.
    """

    outcomes: dict[str, Outcome]
    differences: dict[str, float]
    loss_differences: dict[str, float]
    drifts: dict[str, float]
    gradient_errors: dict[str, float]
    too_large: dict[str, int]

    def faults(self, config: RunConfig) -> dict[str, list[str]]:
        """What is wrong with each strategy beside the others and beside serial training."""
        coarsest = config.policy.coarsest
        checks = (
            (self.differences, SERIAL_TOLERANCE.get(coarsest), "a parameter differs from serial training by"),
            (
                self.loss_differences,
                SERIAL_TOLERANCE.get(coarsest),
                "in some iteration the loss differs from serial training's by",
            ),
            (
                self.drifts,
                DRIFT_TOLERANCE.get(coarsest),
                "the weights end off serial training's by a relative",
            ),
            (self.gradient_errors, GRADIENT_TOLERANCE[coarsest], "the first gradient is off by a relative"),
        )
        found: dict[str, list[str]] = {name: [] for name in self.outcomes}
        for group in must_agree(config, self.outcomes):
            for name in group[1:]:
                found[name] += self._apart(group[0], name)
        for name, outcome in self.outcomes.items():
            if outcome.gradients is None:
                found[name].append(f"{name}: no update was made, so no gradient is known to be right")
        for values, tolerance, what in checks:
            for name, value in values.items():
                # Not "value > tolerance": what is no number is beyond every tolerance.
                if tolerance is not None and not value <= tolerance:
                    found[name].append(f"{name}: {what} {value:.2g}, more than {tolerance:g}")
        return found

    def _apart(self, first: str, other: str) -> list[str]:
        """From where on two strategies' digests differ, if they do."""
        expected, digests = self.outcomes[first].digests, self.outcomes[other].digests
        apart = [iteration for iteration in expected if digests[iteration] != expected[iteration]]
        return [f"{other} differs from {first} from iteration {apart[0]} on"] if apart else []


def applicable(config: RunConfig) -> list[str]:
    """The strategies that go with the rest of what is asked for."""
    return [name for name in STRATEGIES if replace(config, strategy=name).objection is None]


REDUCES = ("all_reduce", "reduce_scatter")
"""What gradients are added up by: a strategy calls one of them."""


def must_agree(config: RunConfig, among: Collection[str] | None = None) -> tuple[tuple[str, ...], ...]:
    """Groups of strategies that must give the same bits after every iteration: those that add in one order.

    All of them, if gradients go around rings. Of several micro-batches some reduce the sum, some the sum of
    each run, and some every one. And nobody knows that an all_reduce and a reduce_scatter of other algorithms
    add alike. ``among``: only of these strategies, and not of all that apply.
    """

    def order(name: str) -> tuple[str, int]:
        rings = all(map(config.chosen.is_ring, REDUCES))
        uses = training_uses(replace(config, strategy=name))
        reduced = {use.collective: use.times for use in uses if use.collective in REDUCES}
        (collective, times), *_ = reduced.items()
        return "reduce_scatter" if rings else collective, times

    groups: dict[tuple[str, int], list[str]] = {}
    for name in applicable(config) if among is None else among:
        groups.setdefault(order(name), []).append(name)
    return tuple(map(tuple, groups.values()))


def compare(
    config: RunConfig,
    dataset: Dataset,
    transport: Transport,
    *,
    run_one: Callable[[RunConfig], Outcome],
    frozen: Model | None = None,
) -> Comparison:
    """Run every strategy that applies, then train serially on every rank; all get the same comparison.

    Every rank does, so that each holds its own outcome against serial training and nobody waits for another.
    ``frozen`` is the reference, if any. Strategies that do not fit the device are left out; if none fits,
    the first runs all the same, and fails.
    """
    large = too_large(config, config.partition(dataset, transport.world_size))
    apply = applicable(config)
    fit = [name for name in apply if name not in large] or apply
    outcomes = {name: run_one(replace(config, strategy=name)) for name in fit}
    own = _beside_serial(config, dataset, outcomes, frozen)
    found = transport.exchange(own, config.time_limit)
    worst = {name: np.max([one[name] for one in found], axis=0) for name in outcomes}  # NaN stays NaN
    differences, loss_differences, drifts, gradient_errors = (
        {name: float(one[place]) for name, one in worst.items()} for place in range(4)
    )
    return Comparison(outcomes, differences, loss_differences, drifts, gradient_errors, large)


def _beside_serial(
    config: RunConfig, dataset: Dataset, outcomes: Mapping[str, Outcome], frozen: Model | None
) -> dict[str, tuple[float, float, float, float]]:
    """By strategy, on this rank: how far parameters, losses, all of the weights and the gradient are off."""
    found = {}
    serial: dict[tuple[int, ...], SerialRun] = {}
    for name, outcome in outcomes.items():
        skipped, num_ranks = tuple(outcome.reports[0].skipped), len(outcome.reports)
        if skipped not in serial:
            serial[skipped] = serial_run(config, dataset, num_ranks, skipped, frozen)
        weights, losses = serial[skipped]
        start = initial_parameters(config.partition(dataset, num_ranks).layers, config.seed, np.float64)
        way = distance(weights, start) or 1.0
        updated = [loss for at, loss in enumerate(outcome.losses, start=1) if at not in skipped]
        found[name] = (
            largest_difference(outcome.weights, weights),
            largest_difference([np.array(updated)], [np.array(losses)]),
            distance(outcome.weights, weights) / way,
            _gradient_error(config, dataset, outcome, frozen),
        )
    return found


def _gradient_error(config: RunConfig, dataset: Dataset, outcome: Outcome, frozen: Model | None) -> float:
    """The error of the first update's gradient, relative to its largest element; 0 if there was none."""
    report = outcome.reports[0]
    iteration = first_update(config.iterations, report.skipped)
    if iteration is None or outcome.gradients is None:
        return 0.0
    expected = first_gradients(config, dataset, len(outcome.reports), iteration, frozen)
    return relative_difference(outcome.gradients, expected)
