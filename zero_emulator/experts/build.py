"""Models with experts: what is chosen, the layers that it makes, and the part of them that one rank has."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

from zero_emulator.experts.experts import Experts
from zero_emulator.experts.peers import Peers
from zero_emulator.experts.router import Router
from zero_emulator.layer import Layer
from zero_emulator.model import build_mlp

MOST_EXPERTS = 1024
"""Behind one layer: more than models that are trained have, and few enough to list in every record."""


@dataclass(frozen=True)
class ExpertSettings:
    """The experts behind every hidden layer: ``hidden`` units inside each, the rest as in Router.

    Without ``hidden`` they have as many as the layer before them.

    ValueError for what cannot be.
    """

    num_experts: int
    top_k: int
    hidden: int | None = None
    capacity: float | None = None
    balance: float = 0.0

    def __post_init__(self) -> None:
        if not 2 <= self.num_experts <= MOST_EXPERTS:
            raise ValueError(
                f"--experts {self.num_experts}: give 2 to {MOST_EXPERTS}, for a choice among them"
            )
        if self.top_k not in (1, 2):
            raise ValueError(f"--top-k {self.top_k}: a row chooses 1 or 2 experts")
        if self.hidden is not None and self.hidden < 1:
            raise ValueError(f"--expert-hidden {self.hidden}: give 1 or more")
        if self.capacity is not None and not (self.capacity > 0 and isfinite(self.capacity)):
            raise ValueError(
                f"--capacity {self.capacity:g}: give a number above 0, or leave it out to drop nothing"
            )
        if not (self.balance >= 0 and isfinite(self.balance)):
            raise ValueError(f"--balance {self.balance:g}: give a number of 0 or more")


def build_expert_mlp(sizes: Sequence[int], settings: ExpertSettings | None = None) -> tuple[Layer, ...]:
    """The layers of ``build_mlp``, and behind every hidden one a Router and its Experts, all of them here.

    ValueError where there is no hidden layer for them to stand behind.
    """
    layers = build_mlp(sizes)
    if settings is None:
        return layers
    *hidden, last = layers
    if not hidden:
        raise ValueError(
            f"--experts {settings.num_experts} behind each hidden layer, and there is none: give --hidden a "
            f"width, or drop --experts"
        )
    built: list[Layer] = []
    for layer in hidden:
        width, num_experts = layer.outputs, settings.num_experts
        router = Router(width, num_experts, settings.top_k, settings.capacity, settings.balance)
        hidden_units = settings.hidden or width
        built += layer, router, Experts(width, hidden_units, num_experts, range(num_experts))
    return *built, last


def part(
    layers: Sequence[Layer], expert_position: int, expert_degree: int, peers: Peers
) -> tuple[Layer, ...]:
    """The layers as one of ``expert_degree`` ranks has them: an equal part of the experts, all of the rest.

    ValueError if experts do not divide, or there is no such position.
    """
    if not 0 <= expert_position < expert_degree:
        raise ValueError(f"no position {expert_position} among {expert_degree}: count them from 0")
    return tuple(_part(layer, expert_position, expert_degree, peers) for layer in layers)


def _part(layer: Layer, position: int, degree: int, peers: Peers) -> Layer:
    if isinstance(layer, Router):
        return replace(layer, peers=peers)
    if isinstance(layer, Experts):
        size, rest = divmod(layer.num_experts, degree)
        if rest:
            raise ValueError(
                f"{layer.num_experts} experts do not split over {degree} ranks: take a divisor of "
                f"{layer.num_experts}"
            )
        return replace(layer, here=range(position * size, (position + 1) * size), peers=peers)
    return layer
