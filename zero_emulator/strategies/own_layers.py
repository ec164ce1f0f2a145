"""A rank's own layers when a run begins: with whom it has each, and what it keeps of it."""

from collections.abc import Sequence
from typing import NamedTuple

from collectives.communicator import Communicator
from zero_emulator.axes import Axes
from zero_emulator.dtypes import dtype_of
from zero_emulator.host import Host
from zero_emulator.layer_params import SHARDED_FROM, LayerParams
from zero_emulator.layout import Array
from zero_emulator.meter import Meter
from zero_emulator.optimizers import Optimizer
from zero_emulator.precision import Precision
from zero_emulator.share import Share
from zero_emulator.update_parts import Groups, block_parts, whole_parts


class Group(NamedTuple):
    """A layer's number in the model, and with whom this rank has it."""

    number: int
    sharers: Communicator
    """Those who shard one copy of it."""
    twins: Communicator | None
    """Those who keep the same shard of other copies."""


def make_groups(share: Share, axes: Axes) -> list[Group]:
    """The groups of a rank's layers, in their order."""
    return [
        Group(held.layer, axes.data(held.sharers), axes.data(held.twins) if len(held.twins) > 1 else None)
        for held in share.held
    ]


def make_layers(
    share: Share,
    groups: Sequence[Group],
    initial: Sequence[Array],
    stage: int,
    precision: Precision,
    optimizer: Optimizer,
    meter: Meter,
    host: Host | None,
) -> list[LayerParams]:
    """What a rank keeps of its layers, of which ``initial`` are all of the model's. Every rank calls it."""
    layers = []
    matrix_groups: dict[Communicator, Groups] = {}
    for held, (number, sharers, _) in zip(share.held, groups, strict=True):
        among = matrix_groups.setdefault(sharers, Groups(sharers))
        rules, moment = optimizer.rules(held.plan.layout), dtype_of(precision.moment)
        sharded = stage >= SHARDED_FROM["moment"]
        parts = block_parts(rules, held.sizes, among, moment) if sharded else whole_parts(rules, moment)
        params = initial[number][held.place]
        layers.append(LayerParams(params, held.sizes, sharers.rank, stage, precision, parts, meter, host))
    return layers
