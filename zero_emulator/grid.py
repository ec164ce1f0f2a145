"""Where each rank stands in the grid of pipeline x data x expert, and whose weights are copies of its own."""

from dataclasses import dataclass

from zero_emulator.parallel_degrees import ParallelDegrees

Ranks = tuple[int, ...]
"""World ranks, in order."""


@dataclass(frozen=True)
class Grid:
    """World rank = (stage x D + data position) x E + expert position; every rank but for the stage has rows.

    So the ranks of a stage stand side by side, and lie in the order of the samples. Dense weights have as
    many copies as a stage has ranks, an expert's as many as there are data positions: that number, and not
    the number of ranks, is what they can be sharded over. ``shard_size``: shard over so many of the copies
    only, side by side, and copy the shards from one such group to the next (hybrid sharding).

    Sources: for experts Lepikhin et al., GShard, ICLR 2021; for hybrid sharding Zhao et al., PyTorch FSDP,
    VLDB 2023.

    >>> grid = Grid(8, pipeline=2, expert=2)
    >>> grid.copies(4, expert=False), grid.copies(4, expert=True)
    ((4, 5, 6, 7), (4, 6))
    """

    ranks: int
    pipeline: int = 1
    expert: int = 1
    shard_size: int | None = None

    def __post_init__(self) -> None:
        degrees = self.degrees  # which checks that they divide
        size = self.shard_size
        if size is None:
            return
        for expert in {False, self.expert > 1}:
            copies = degrees.copies(expert)
            if size < 1 or copies % size:
                what = "an expert's weights" if expert else "the weights"
                raise ValueError(
                    f"--shard-size {size} does not divide the {copies} copies of {what}: take one of "
                    f"{', '.join(str(one) for one in range(1, copies + 1) if copies % one == 0)}"
                )

    @property
    def degrees(self) -> ParallelDegrees:
        """How many ranks each axis has. ValueError where they do not divide."""
        return ParallelDegrees(self.ranks, pipeline=self.pipeline, expert=self.expert)

    @property
    def stage_size(self) -> int:
        """Ranks of a stage: copies of its dense weights, each with rows of its own."""
        return self.ranks // self.pipeline

    def stage(self, rank: int) -> int:
        return rank // self.stage_size

    def stage_position(self, rank: int) -> int:
        """Which of its stage's ranks it is, and so which rows it works on: those of that position."""
        return rank % self.stage_size

    def expert_position(self, rank: int) -> int:
        return rank % self.expert

    def copies(self, rank: int, *, expert: bool) -> Ranks:
        """The ranks that compute with the same dense weights, or with the same expert's."""
        first = self.stage(rank) * self.stage_size
        stage = range(first, first + self.stage_size)
        return tuple(stage[self.expert_position(rank) :: self.expert] if expert else stage)

    def sharers(self, rank: int, *, expert: bool) -> Ranks:
        """Of the copies those that shard one between them."""
        copies = self.copies(rank, expert=expert)
        size = self.shard_size or len(copies)
        first = copies.index(rank) // size * size
        return copies[first : first + size]

    def twins(self, rank: int, *, expert: bool) -> Ranks:
        """Of the copies those that keep the same shard, one of each group of sharers."""
        copies = self.copies(rank, expert=expert)
        size = self.shard_size or len(copies)
        return copies[copies.index(rank) % size :: size]

    def expert_peers(self, rank: int) -> Ranks:
        """The ranks that share the experts out, and send each other tokens: by expert position."""
        first = rank - self.expert_position(rank)
        return tuple(range(first, first + self.expert))

    def pipeline_peers(self, rank: int) -> Ranks:
        """The ranks of all stages that work on the same rows: by stage."""
        return tuple(range(self.stage_position(rank), self.ranks, self.stage_size))
