"""The communicators of a rank along the axes of the grid, each split off once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from collectives.communicator import Communicator
from zero_emulator.grid import Grid, Ranks


@dataclass(frozen=True)
class Axes:
    """A rank's communicators: the world's, and those of the groups that it is in, by axis and ranks."""

    world: Communicator
    groups: dict[tuple[str, Ranks], Communicator]

    def data(self, ranks: Ranks) -> Communicator:
        """Among ranks with copies of the same weights."""
        return self.groups["data", ranks]

    def expert(self, ranks: Ranks) -> Communicator:
        """Among ranks that send each other tokens."""
        return self.groups["expert", ranks]

    def pipeline(self, ranks: Ranks) -> Communicator:
        """Among ranks that send each other activations."""
        return self.groups["pipeline", ranks]


def make_axes(world: Communicator, grid: Grid) -> Axes:
    """Split the world along the axes of the grid. Every rank calls it."""
    everybody = tuple(range(grid.ranks))
    groups = {("data", everybody): world}
    done = {("data", (everybody,) * grid.ranks)}
    for axis, members in _axes(grid):
        of_each = tuple(members(rank) for rank in everybody)
        if (axis, of_each) not in done:
            done.add((axis, of_each))
            own = of_each[world.rank]
            part = world.split(own[0], world.rank, axis=axis)
            assert part is not None, "every rank has a color"
            groups[axis, own] = part
    return Axes(world, groups)


def _axes(grid: Grid) -> list[tuple[str, Callable[[int], Ranks]]]:
    """Whom each rank meets, by axis: who has copies of its dense weights, and of its experts, and so on."""
    axes: list[tuple[str, Callable[[int], Ranks]]] = []
    for expert in (False, True) if grid.expert > 1 else (False,):
        axes.append(("data", partial(grid.copies, expert=expert)))
        axes.append(("data", partial(grid.sharers, expert=expert)))
        if grid.shard_size is not None:
            axes.append(("data", partial(grid.twins, expert=expert)))
    if grid.expert > 1:
        axes.append(("expert", grid.expert_peers))
    if grid.pipeline > 1:
        axes.append(("pipeline", grid.pipeline_peers))
    return axes
