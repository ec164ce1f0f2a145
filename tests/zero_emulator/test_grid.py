"""Who is with whom on the grid, and that every layer is on one stage, whole: no rank runs here."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from zero_emulator.grid import Grid, Ranks
from zero_emulator.model import build_mlp
from zero_emulator.partition import make_partition

GRIDS = {
    "one rank": Grid(1),
    "data 8": Grid(8),
    "pipeline 2": Grid(2, pipeline=2),
    "pipeline 2 x data 4": Grid(8, pipeline=2),
    "pipeline 4 x data 2": Grid(8, pipeline=4),
    "data 8, in shards of 8": Grid(8, shard_size=8),
    "data 8, in shards of 4": Grid(8, shard_size=4),
    "pipeline 2 x data 4, in shards of 2": Grid(8, pipeline=2, shard_size=2),
    "pipeline 2 x data 4, in shards of 1": Grid(8, pipeline=2, shard_size=1),
    "pipeline 2 x data 2 x expert 2": Grid(8, pipeline=2, expert=2),
    "pipeline 2 x data 2 x expert 3, in shards of 2": Grid(12, pipeline=2, expert=3, shard_size=2),
}

GROUPS: dict[str, Callable[[Grid, int], Ranks]] = {
    "copies": lambda grid, rank: grid.copies(rank, expert=False),
    "copies of experts": lambda grid, rank: grid.copies(rank, expert=True),
    "sharers": lambda grid, rank: grid.sharers(rank, expert=False),
    "sharers of experts": lambda grid, rank: grid.sharers(rank, expert=True),
    "twins": lambda grid, rank: grid.twins(rank, expert=False),
    "twins of experts": lambda grid, rank: grid.twins(rank, expert=True),
    "expert peers": Grid.expert_peers,
    "pipeline peers": Grid.pipeline_peers,
}

each_grid = pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)


@each_grid
@pytest.mark.parametrize("group", GROUPS)
def test_every_rank_is_in_one_group_of_each_kind_and_all_its_members_say_the_same(
    grid: Grid, group: str
) -> None:
    groups = {GROUPS[group](grid, rank) for rank in range(grid.ranks)}
    assert sorted(chain(*groups)) == [*range(grid.ranks)]
    for ranks in groups:
        assert all(GROUPS[group](grid, rank) == ranks for rank in ranks)
        assert sorted(ranks) == [*ranks]


@each_grid
def test_groups_have_as_many_ranks_as_the_degrees_say(grid: Grid) -> None:
    for rank in range(grid.ranks):
        assert len(grid.pipeline_peers(rank)) == grid.pipeline
        assert len(grid.expert_peers(rank)) == grid.expert
        for expert, copies in (
            (False, grid.ranks // grid.pipeline),
            (True, grid.ranks // grid.pipeline // grid.expert),
        ):
            assert len(grid.copies(rank, expert=expert)) == copies
            assert len(grid.sharers(rank, expert=expert)) == (grid.shard_size or copies)
            assert len(grid.twins(rank, expert=expert)) == copies // (grid.shard_size or copies)


@each_grid
def test_sharers_and_twins_cross_in_the_rank_alone_and_stay_among_the_copies(grid: Grid) -> None:
    for rank in range(grid.ranks):
        for expert in (False, True):
            sharers, twins = grid.sharers(rank, expert=expert), grid.twins(rank, expert=expert)
            assert {*sharers} & {*twins} == {rank}
            assert {*sharers} | {*twins} <= {*grid.copies(rank, expert=expert)}


def test_the_ranks_of_a_stage_stand_side_by_side_and_in_the_order_of_the_rows() -> None:
    grid = Grid(8, pipeline=2, shard_size=2)
    assert [grid.stage(rank) for rank in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [grid.stage_position(rank) for rank in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert grid.copies(5, expert=False) == (4, 5, 6, 7)
    assert grid.sharers(5, expert=False) == (4, 5)
    assert grid.twins(5, expert=False) == (5, 7)
    assert grid.pipeline_peers(5) == (1, 5)


def test_expert_positions_stand_side_by_side_within_a_data_position() -> None:
    grid = Grid(12, pipeline=2, expert=3)
    assert [grid.expert_position(rank) for rank in range(6)] == [0, 1, 2, 0, 1, 2]
    assert grid.expert_peers(10) == (9, 10, 11)
    assert grid.copies(10, expert=True) == (7, 10)
    assert grid.pipeline_peers(10) == (4, 10)


@pytest.mark.parametrize(
    ("degrees", "message"),
    [
        ({"ranks": 8, "pipeline": 3}, "8 ranks do not divide by --pipeline 3: take a multiple of 3 ranks"),
        (
            {"ranks": 8, "pipeline": 2, "expert": 3},
            "8 ranks do not divide by --pipeline 2 x --expert 3 = 6: take a multiple of 6 ranks",
        ),
        ({"ranks": 8, "pipeline": 0}, "--pipeline 0: give 1 or more"),
        (
            {"ranks": 8, "pipeline": 2, "shard_size": 3},
            "--shard-size 3 does not divide the 4 copies of the weights: take one of 1, 2, 4",
        ),
        (
            {"ranks": 8, "shard_size": 0},
            "--shard-size 0 does not divide the 8 copies of the weights: take one of 1, 2, 4, 8",
        ),
        (
            {"ranks": 8, "expert": 2, "shard_size": 8},
            "--shard-size 8 does not divide the 4 copies of an expert's weights: take one of 1, 2, 4",
        ),
    ],
)
def test_degrees_that_do_not_divide_are_refused_with_those_that_do(
    degrees: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole text is compared
        Grid(**degrees)
    assert str(refused.value) == message


@each_grid
@pytest.mark.parametrize("chunks", [1, 2])
def test_every_layer_is_on_one_stage_alone_and_there_once_on_each_rank(grid: Grid, chunks: int) -> None:
    partition = make_partition(
        build_mlp([5, 4, 3, 4, 3, 4, 3, 4, 3, 2]), grid, chunks=chunks, schedule="gpipe"
    )
    stages: dict[int, set[int]] = {}
    for rank in range(grid.ranks):
        numbers = [held.layer for held in partition.share(rank).held]
        assert len({*numbers}) == len(numbers)
        for number in numbers:
            stages.setdefault(number, set()).add(grid.stage(rank))
    assert sorted(stages) == [*range(len(partition.layers))]
    assert all(len(found) == 1 for found in stages.values())


@each_grid
def test_what_sharers_have_of_a_layer_is_one_copy_of_it(grid: Grid) -> None:
    partition = make_partition(build_mlp([5, 4, 3, 4, 2]), grid)
    for rank in range(grid.ranks):
        for held in partition.share(rank).held:
            assert sum(held.sizes) == partition.layers[held.layer].layout.size
            assert len(held.sizes) == len(held.sharers)


def test_chunk_c_is_on_stage_c_modulo_the_stages() -> None:
    partition = make_partition(
        build_mlp([2] * 8), Grid(4, pipeline=2), chunks=3, schedule="gpipe"
    )  # 7 layers in 6 chunks
    chunks: Any = [
        {chunk: [share.held[at].layer for at in places] for chunk, places in share.chunks.items()}
        for share in map(partition.share, (0, 2))
    ]
    assert chunks == [{0: [0, 1], 2: [3], 4: [5]}, {1: [2], 3: [4], 5: [6]}]


def test_more_chunks_than_layers_are_refused_with_both_numbers() -> None:
    with pytest.raises(
        ValueError, match="--pipeline 2 x --chunks 2 make 4 chunks of 3 layers: take 3 chunks"
    ):
        make_partition(build_mlp([2] * 4), Grid(2, pipeline=2), chunks=2)
