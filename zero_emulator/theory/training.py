"""Training traffic: the bytes that the collectives of an iteration send, whichever strategy calls them."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

from zero_emulator.theory.muon import muon_fetches
from zero_emulator.theory.rings import NOTHING, PASSES, Flow, Sizes, ring_flow

KeepViews = Literal["none", "last", "all"]
"""Whose gathered views stay from forward to backward: nobody's, the last layer's, everybody's."""


class Use(NamedTuple):
    """A collective that every layer (or only some) takes part in, ``times`` an iteration, in one dtype."""

    phase: str
    collective: str
    times: int
    itemsize: int
    layers: slice = slice(None)

    @property
    def passes(self) -> int:
        """How often its layers pass through a ring in an iteration."""
        return self.times * len(PASSES[self.collective])


def iteration_traffic(
    uses: Sequence[Use],
    layers: Sequence[Sizes],
    rank: int,
    fetched: Sequence[Sizes] = (),
    fetched_itemsize: int = 0,
    flow_of: Callable[[str, Sizes, int], Flow] = ring_flow,
) -> dict[tuple[str, str], Flow]:
    """Bytes that a rank sends and receives in an iteration, by (phase, collective).

    ``fetched`` are matrices that ranks fetch from each other for Muon, by their shares, around a ring.
    ``flow_of``: what a call sends and receives, given its collective, its blocks and the rank.
    """
    flows: dict[tuple[str, str], Flow] = {}
    for use in uses:
        for sizes in layers[use.layers]:
            flow = flow_of(use.collective, sizes, rank).times(use.times * use.itemsize)
            key = use.phase, use.collective
            flows[key] = flows.get(key, NOTHING) + flow
    if fetched:
        key = "update", "all_gather"
        flows[key] = flows.get(key, NOTHING) + muon_fetches(fetched, rank, fetched_itemsize)
    return flows


def num_calls(uses: Sequence[Use], num_layers: int) -> int:
    """The collectives that an iteration calls for training."""
    return sum(use.times * len(range(num_layers)[use.layers]) for use in uses)


def multiple(sent: int, shared: Sequence[tuple[int, int]], itemsize: int) -> float | None:
    """Bytes sent as a multiple of f(N) Ψ; ``shared`` are pairs of parameters Ψ and their N, to be added up.

    None where every N is 1: then nothing is sent.

    >>> multiple(24, [(4, 4)], itemsize=4)
    2.0
    """
    unit = sum(num_params * Fraction(degree - 1, degree) for num_params, degree in shared)
    return float(sent / (unit * itemsize)) if unit else None
