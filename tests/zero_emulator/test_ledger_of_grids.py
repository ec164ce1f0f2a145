"""The ledger of a model that is described, beside a run of the same model on the same grid."""

from math import prod
from typing import Any

import pytest

from zero_emulator.data import Dataset
from zero_emulator.grid import Grid
from zero_emulator.held_bytes import Training, kept_bytes
from zero_emulator.partition import Partition
from zero_emulator.precision import PRECISIONS
from zero_emulator.shapes import Model, ModelLayer, Tensor
from zero_emulator.stages import stages_of
from zero_emulator.strategies import STRATEGIES


def described(partition: Partition) -> Model:
    """A run's own layers as blocks of a model, with nothing before or after them."""
    blocks = tuple(
        ModelLayer(f"layer {number}", tuple(Tensor(*shape) for shape in layer.layout.shapes), is_block=True)
        for number, layer in enumerate(partition.layers)
    )
    return Model("the run's", ModelLayer("before", ()), blocks, ModelLayer("after", ()))


@pytest.mark.on_threads
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("world_size", [4])
def test_what_the_ledger_says_that_a_stages_rank_keeps_is_what_it_keeps_in_a_run(
    train: Any, even: Dataset, strategy: str
) -> None:
    outcome = train(
        strategy, data=even, hidden=(8, 8), dtype=None, precision="bf16", iterations=1, pipeline=2
    )
    partition = outcome.config.partition(even, 4)
    degrees = Grid(4, pipeline=2).degrees
    stages = stages_of(described(partition), degrees)
    assert [stage.num_params for stage in stages] == [
        sum(prod(shape) for layer in partition.layers[cut] for _, shape in layer.layout.shapes)
        for cut in (slice(0, 2), slice(2, 3))
    ]
    kept = [kept_bytes(strategy, stage, degrees, Training(PRECISIONS["bf16"])) for stage in stages]
    assert [report.persistent for report in outcome.reports] == [kept[0], kept[0], kept[1], kept[1]]
