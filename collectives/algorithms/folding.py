"""Any number of ranks for what needs a power of two: r ranks too many hand their part to a neighbour.

Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
MPICH, IJHPCA 2005. Of p ranks q act, the largest power of two; of the others, r = p - q, each is the odd one
of a pair: rank 2i + 1 gives all that it has to rank 2i, idles, and is given its result in the end. Neighbours
pair up, so actor a stands for one rank or two in a row, and order is kept.
"""

from collections.abc import Callable

from collectives.schedule import Block, MakeSchedule, Recv, Schedule, Send, rename, spread


def folded(
    schedule: MakeSchedule, rank: int, world_size: int, result: Callable[[int], tuple[int, ...]]
) -> Schedule:
    """``schedule``, which reduces on a power of two of ranks, among actors, with the others folded in.

    Its block a becomes the block of actor a or, if that stands for a pair, both of theirs. ``result(rank)``:
    the blocks that a rank ends with.

    Cost: two steps more if there is anything to fold.
    """
    num_actors = 1 << world_size.bit_length() - 1
    num_pairs = world_size - num_actors
    everything = tuple(range(world_size))

    def leader(actor: int) -> int:
        return actor + min(actor, num_pairs)

    def blocks_of(actor: Block) -> tuple[int, ...]:
        assert isinstance(actor, int)
        return tuple(range(leader(actor), leader(actor + 1)))

    def act(actor: int) -> Schedule:
        return spread(rename(schedule(actor, num_actors), peer=leader), blocks_of)

    if num_pairs == 0:
        yield from act(rank)
    elif rank >= 2 * num_pairs:
        yield ()
        yield from act(rank - num_pairs)
        yield ()
    elif rank % 2 == 0:
        yield (Recv(rank + 1, everything, "after"),)
        yield from act(rank // 2)
        yield (Send(rank + 1, result(rank + 1)),)
    else:
        yield (Send(rank - 1, everything),)
        yield from (() for _ in act(rank // 2))
        yield (Recv(rank - 1, result(rank)),)
