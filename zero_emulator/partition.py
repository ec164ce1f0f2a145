"""A model over a grid of ranks: how its layers are cut into chunks and blocks, and what each rank gets."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from collectives.blocks import bounds, even_cut
from zero_emulator.cuts import CUTS
from zero_emulator.experts import ALONE, Experts, part
from zero_emulator.grid import Grid
from zero_emulator.layer import Layer
from zero_emulator.pipeline import most_held, orders
from zero_emulator.share import Held, Share, matrix_shares
from zero_emulator.theory import Sizes


@dataclass(frozen=True)
class Partition:
    """A model's layers, padding included, and where on the grid they are.

    The layers are cut into ``grid.pipeline`` x ``chunks`` chunks of the model, as evenly as they go; chunk c
    is computed on stage c modulo the number of stages. ValueError for more chunks than layers.
    """

    layers: tuple[Layer, ...]
    grid: Grid
    cut: str = "even"
    schedule: str = "1f1b"
    chunks: int = 1
    micro_batches: int = 1

    def __post_init__(self) -> None:
        stages, num_layers = self.grid.pipeline, len(self.layers)
        if stages * self.chunks > num_layers:
            raise ValueError(
                f"--pipeline {stages} x --chunks {self.chunks} make {stages * self.chunks} chunks of "
                f"{num_layers} layers: take {num_layers} chunks or fewer, or more layers with --hidden"
            )

    @property
    def world_size(self) -> int:
        return self.grid.ranks

    @property
    def num_params(self) -> int:
        """Ψ, without padding."""
        return sum(layer.layout.num_params for layer in self.layers)

    def chunk_layers(self, chunk: int) -> range:
        """The layers of the model that a chunk consists of."""
        place = bounds(even_cut(len(self.layers), self.grid.pipeline * self.chunks))[chunk]
        return range(place.start, place.stop)

    @property
    def num_classes(self) -> int:
        """Into how many classes the layers of a rank fall, at most: see Share."""
        return max(len(self.share(rank).classes) for rank in range(self.world_size))

    @property
    def is_plain(self) -> bool:
        """Whether plain data parallelism is all there is.

        Every rank shards every layer with all others, and takes one micro-batch after the other.
        """
        grid = self.grid
        whole = grid.shard_size in (None, grid.ranks)
        in_turn = most_held(self.share(0).order) == 1
        return grid.pipeline == self.chunks == 1 and in_turn and whole and not self.has_experts

    @property
    def has_experts(self) -> bool:
        return any(isinstance(layer, Experts) for layer in self.layers)

    def share(self, rank: int) -> Share:
        """What a rank does of the model."""
        return _share(self, rank)

    @property
    def blocks(self) -> tuple[Sizes, ...]:
        """Of every layer the blocks that a copy of it is cut into; an expert layer's: of each part of it."""
        stages = range(0, self.world_size, self.grid.stage_size)
        held = sorted((held for rank in stages for held in self.share(rank).held), key=lambda one: one.layer)
        return tuple(one.sizes for one in held)

    @property
    def matrices(self) -> tuple[Sizes, ...]:
        """The shares of every matrix: its elements in each block."""
        return matrix_shares([layer.layout for layer in self.layers], self.blocks)


@lru_cache(maxsize=256)
def _share(partition: Partition, rank: int) -> Share:
    grid = partition.grid
    num_chunks = grid.pipeline * partition.chunks
    numbers: list[int] = []
    chunks = {}
    for chunk in range(grid.stage(rank), num_chunks, grid.pipeline):
        layers = partition.chunk_layers(chunk)
        chunks[chunk] = range(len(numbers), len(numbers) + len(layers))
        numbers += layers
    return Share(
        rank,
        grid.stage_position(rank),
        grid.stage_size,
        _held(partition, rank, numbers),
        chunks,
        num_chunks,
        _orders(partition.schedule, grid.pipeline, partition.chunks, partition.micro_batches)[
            grid.stage(rank)
        ],
    )


_orders = lru_cache(maxsize=16)(orders)  # each is checked when it is made


def _held(partition: Partition, rank: int, numbers: Sequence[int]) -> tuple[Held, ...]:
    grid = partition.grid
    parts = [_part(partition.layers[number], grid, rank) for number in numbers]
    held = {}
    for expert in (False, True):
        members = [at for at, (_, _, of_experts) in enumerate(parts) if of_experts == expert]
        sharers, twins = grid.sharers(rank, expert=expert), grid.twins(rank, expert=expert)
        blocks = CUTS[partition.cut]([parts[at][0].layout.size for at in members], len(sharers))
        for at, sizes in zip(members, blocks, strict=True):
            plan, place, _ = parts[at]
            held[at] = Held(numbers[at], plan, place, expert, sharers, twins, sizes)
    return tuple(held[at] for at in range(len(parts)))


def _part(layer: Layer, grid: Grid, rank: int) -> tuple[Layer, slice, bool]:
    """What a rank has of a layer, where that lies in the layer's parameters, whether it is of experts."""
    if isinstance(layer, Experts):
        (here,) = part([layer], grid.expert_position(rank), grid.expert, ALONE)
        assert isinstance(here, Experts), "a part of experts is experts"
        return here, here.place, True
    return layer, slice(0, layer.layout.size), False


def make_partition(
    layers: Sequence[Layer],
    grid: Grid,
    *,
    padding: str = "none",
    cut: str = "even",
    schedule: str = "1f1b",
    chunks: int = 1,
    micro_batches: int = 1,
) -> Partition:
    """The layers with this padding, cut in this way; their names are those of PADDINGS and CUTS."""
    degree = len(grid.sharers(0, expert=False))
    padded = tuple(layer.padded(padding, degree) for layer in layers)
    return Partition(padded, grid, cut, schedule, chunks, micro_batches)
