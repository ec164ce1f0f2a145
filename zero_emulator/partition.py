"""A model over ranks: its layers, and which part of each belongs to whom."""

from collections.abc import Sequence
from dataclasses import dataclass

from zero_emulator.cuts import CUTS, overlaps
from zero_emulator.layer import Layer
from zero_emulator.layout import FlatLayout
from zero_emulator.theory import Sizes


@dataclass(frozen=True)
class Partition:
    """Layers, and elements of each layer's blocks, padding included: block r belongs to rank r."""

    layers: tuple[Layer, ...]
    blocks: tuple[Sizes, ...]

    @property
    def world_size(self) -> int:
        return len(self.blocks[0])

    @property
    def num_params(self) -> int:
        """Ψ, without padding."""
        return sum(layer.layout.num_params for layer in self.layers)

    @property
    def matrices(self) -> tuple[Sizes, ...]:
        """The shares of every matrix: its elements in each rank's block."""
        return matrix_shares([layer.layout for layer in self.layers], self.blocks)


def matrix_shares(layouts: Sequence[FlatLayout], blocks: Sequence[Sizes]) -> tuple[Sizes, ...]:
    """The shares of every matrix in these layers: its elements in each rank's block."""
    return tuple(
        overlaps(sizes, place)
        for layout, sizes in zip(layouts, blocks, strict=True)
        for (_, shape), place in zip(layout.shapes, layout.places.values(), strict=True)
        if len(shape) == 2
    )


def make_partition(
    layers: Sequence[Layer], world_size: int, *, padding: str = "none", cut: str = "even"
) -> Partition:
    """The layers with this padding, cut in this way; their names are those of PADDINGS and CUTS."""
    padded = tuple(layer.padded(padding, world_size) for layer in layers)
    return Partition(padded, CUTS[cut]([layer.layout.size for layer in padded], world_size))
