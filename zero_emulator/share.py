"""What one rank does of a model: its layers, its order of work, and with whom it shares what it keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zero_emulator.cuts import overlaps
from zero_emulator.grid import Ranks
from zero_emulator.layer import Layer
from zero_emulator.layout import FlatLayout
from zero_emulator.pipeline import Order
from zero_emulator.theory import Sizes


@dataclass(frozen=True)
class Held:
    """A layer as one rank computes with it: all of it, or only the experts that are here."""

    layer: int
    """Its number in the model."""
    plan: Layer
    place: slice
    """What is here of the layer's flat parameters."""
    expert: bool
    sharers: Ranks
    """The ranks that shard one copy between them: block i is the i-th one's."""
    twins: Ranks
    """The ranks that keep the same block of other copies: more than one if shards are copied, too."""
    sizes: Sizes
    """Elements of the blocks, padding included."""

    @property
    def matrices(self) -> tuple[Sizes, ...]:
        """The shares of every matrix: its elements in each block."""
        return matrix_shares([self.plan.layout], [self.sizes])


@dataclass(frozen=True)
class Share:
    """What one rank does of a model: its layers, the chunks that they make, and its order of work."""

    rank: int
    stage_position: int
    """Which of its stage's ranks it is: it works on the rows of that position."""
    stage_size: int
    """Ranks of a stage."""
    held: tuple[Held, ...]
    chunks: Mapping[int, range]
    """The rank's chunks of the model, each with its layers, by their place in ``held``."""
    num_chunks: int
    """Of the whole model."""
    order: Order

    @property
    def has_loss(self) -> bool:
        """Whether it computes the last chunk of the model, and so the loss."""
        return self.num_chunks - 1 in self.chunks

    @property
    def num_params(self) -> int:
        """Of the layers that the rank computes with, without padding."""
        return sum(held.plan.layout.num_params for held in self.held)

    @property
    def classes(self) -> tuple[tuple[Held, ...], ...]:
        """The rank's layers by who else has them: the dense ones, and experts where those are fewer."""
        found: dict[tuple[Ranks, Ranks], list[Held]] = {}
        for held in self.held:
            found.setdefault((held.sharers, held.twins), []).append(held)
        return tuple(map(tuple, found.values()))


def matrix_shares(layouts: Sequence[FlatLayout], blocks: Sequence[Sizes]) -> tuple[Sizes, ...]:
    """The shares of every matrix in these layers: its elements in each rank's block."""
    return tuple(
        overlaps(sizes, place)
        for layout, sizes in zip(layouts, blocks, strict=True)
        for (_, shape), place in zip(layout.shapes, layout.places.values(), strict=True)
        if len(shape) == 2
    )
