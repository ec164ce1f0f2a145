"""Which part of a padded layer belongs to which rank, and that training does not depend on it."""

from typing import Any

import numpy as np
import pytest

from zero_emulator.cuts import cut_between_layers, cut_evenly
from zero_emulator.data import Dataset
from zero_emulator.grid import Grid
from zero_emulator.judge import faults
from zero_emulator.model import build_mlp
from zero_emulator.padding import PADDINGS
from zero_emulator.partition import make_partition
from zero_emulator.theory import PLAIN

SHAPES = [(7, 3), (3,)]  # 24 elements


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5, 7, 8, 11])
def test_even_blocks_cover_each_layer_and_differ_by_at_most_one(world_size: int) -> None:
    for size, sizes in zip((10, 3), cut_evenly([10, 3], world_size), strict=True):
        assert len(sizes) == world_size
        assert sum(sizes) == size
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5, 7, 8, 11])
def test_a_cut_between_layers_gives_each_layer_to_one_rank_and_none_two_while_another_has_none(
    world_size: int,
) -> None:
    layers = [5, 1, 4, 2, 3]
    blocks = cut_between_layers(layers, world_size)
    for size, sizes in zip(layers, blocks, strict=True):
        assert sorted(sizes) == [0] * (world_size - 1) + [size]
    owned = [sum(size > 0 for size in shares) for shares in zip(*blocks, strict=True)]
    assert sum(count > 0 for count in owned) == min(world_size, len(layers))


@pytest.mark.parametrize(
    ("padding", "expected"), [("none", ()), ("even", (0, 1)), ("2n", (0, 6)), ("rows", (9, 2))]
)
def test_padding_is_what_it_says(padding: str, expected: tuple[int, ...]) -> None:
    assert PADDINGS[padding](SHAPES, 5) == expected


@pytest.mark.parametrize("padding", ["even", "2n", "rows"])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5, 7, 8])
def test_padded_blocks_are_equal_and_parameters_as_many_as_before(padding: str, world_size: int) -> None:
    partition = make_partition(build_mlp([7, 3, 2]), Grid(world_size), padding=padding)
    assert partition.num_params == 32
    assert all(len(set(sizes)) == 1 for sizes in partition.blocks)


@pytest.mark.on_threads
@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize(
    "layout", [{"padding": "even"}, {"padding": "rows"}, {"padding": "2n"}, {"cut": "layers"}]
)
@pytest.mark.parametrize("world_size", [3])
def test_training_passes_its_audits_and_learns_the_same_on_any_layout(
    train: Any, toy: Dataset, strategy: str, layout: dict[str, str]
) -> None:
    plain, other = (train(strategy, clip=0.5, micro_batches=2, **given) for given in ({}, layout))
    partitions = [outcome.config.partition(toy, len(outcome.reports)) for outcome in (plain, other)]
    assert faults(other.config, partitions[1], other) == []
    for (layer, weights), (padded, padded_weights) in zip(
        *(
            zip(partition.layers, outcome.weights, strict=True)
            for partition, outcome in zip(partitions, (plain, other), strict=True)
        ),
        strict=True,
    ):
        tensors = padded.layout.views(padded_weights)
        for name, tensor in layer.layout.views(weights).items():
            np.testing.assert_allclose(tensors[name], tensor, rtol=0, atol=1e-13)
        assert np.count_nonzero(padded_weights) <= padded.layout.num_params
