"""PAT, parallel aggregated trees: logarithmic on any number of ranks, and far messages are small.

Source: S. Jeaugey, PAT: a new algorithm for all-gather and reduce-scatter operations at scale, 2025
(arXiv:2506.20252). Every block goes down a binomial tree of its own, rooted at its rank, and all trees are
the same but for the root. So a message carries the blocks of several trees: up to ``most_blocks``.

The longest hops come first, when there is one block to send; in Bruck's order they come last, with half of
all blocks. And a rank is done with some trees before it starts on others: with small messages a
reduce-scatter keeps no more than about most_blocks · log p blocks in scratch, whatever p is.
"""

from collections.abc import Iterator

from collectives.schedule import Recv, Schedule, Send, backwards


def all_gather(rank: int, world_size: int, most_blocks: int | None = None) -> Schedule:
    """Every rank ends with every block. With messages of any size, in the fewest steps.

    Cost: ⌈log p⌉ steps, every rank sends p - 1 blocks.
    """
    for hop, offsets in _messages(world_size, most_blocks or world_size):
        ahead, behind = (rank + hop) % world_size, (rank - hop) % world_size
        yield (
            Send(ahead, tuple((rank - offset) % world_size for offset in offsets)),
            Recv(behind, tuple((behind - offset) % world_size for offset in offsets)),
        )


def reduce_scatter(rank: int, world_size: int, most_blocks: int | None = None) -> Schedule:
    """Block r ends reduced on rank r: the all-gather backwards. For operators that commute.

    Cost: ⌈log p⌉ steps, every rank sends p - 1 blocks.
    """
    return backwards(all_gather(rank, world_size, most_blocks), "before")


def _messages(world_size: int, most_blocks: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """What the ranks send, step by step: how far, and the blocks of ranks that are how far behind."""

    def visit(offsets: tuple[int, ...], hop: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Pass on what has come to ``offsets`` so far, by this hop and all shorter ones."""
        if hop == 0:
            return
        sent = tuple(offset for offset in offsets if offset + hop < world_size)
        if sent:
            yield hop, sent
        reached = tuple(offset + hop for offset in sent)
        if len(offsets) + len(reached) <= most_blocks:
            yield from visit(offsets + reached, hop // 2)
        else:
            yield from visit(offsets, hop // 2)
            yield from visit(reached, hop // 2)

    yield from visit((0,), 1 << (world_size - 1).bit_length() - 1 if world_size > 1 else 0)
