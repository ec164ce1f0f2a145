"""Which part of each layer belongs to which rank."""

from collections.abc import Callable, Sequence

from collectives.blocks import bounds, even_cut
from zero_emulator.theory import Sizes


def cut_evenly(layers: Sequence[int], world_size: int) -> tuple[Sizes, ...]:
    """Near-equal blocks of every layer of so many elements; a block may begin in the middle of a tensor.

    >>> cut_evenly([7, 2], 3)
    ((3, 2, 2), (1, 1, 0))
    """
    return tuple(even_cut(size, world_size) for size in layers)


def cut_between_layers(layers: Sequence[int], world_size: int) -> tuple[Sizes, ...]:
    """Every layer whole, the largest first, each to the rank that has least so far.

    No tensor is cut, so Muon has nothing to fetch; but ranks have unequal shares, or none.

    >>> cut_between_layers([7, 2, 4], 2)
    ((7, 0), (0, 2), (0, 4))
    """
    shares = [0] * world_size
    owners = {}
    for layer in sorted(range(len(layers)), key=lambda layer: -layers[layer]):
        owners[layer] = shares.index(min(shares))
        shares[owners[layer]] += layers[layer]
    return tuple(
        tuple(size if rank == owners[layer] else 0 for rank in range(world_size))
        for layer, size in enumerate(layers)
    )


def overlaps(sizes: Sizes, place: slice) -> Sizes:
    """Elements of each rank's block that lie in this part of the layer.

    >>> overlaps((3, 3, 3), slice(2, 7))
    (1, 3, 1)
    """
    return tuple(
        max(0, min(block.stop, place.stop) - max(block.start, place.start)) for block in bounds(sizes)
    )


CUTS: dict[str, Callable[[Sequence[int], int], tuple[Sizes, ...]]] = {
    "even": cut_evenly,
    "layers": cut_between_layers,
}
"""The table of cuts: each makes of the elements of each layer the blocks of each layer."""
