"""The other ranks, as a layer meets them: counts that all tell all, rows that travel by a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from collectives.communicator import Communicator
from zero_emulator.layout import Array, Empty


class Peers(Protocol):
    """Those that hold rows of the same micro-batch, and among them those that share the experts out."""

    @property
    def rank(self) -> int:
        """This rank among those that hold rows; the rows lie in rank order."""

    @property
    def sharing(self) -> Sequence[int]:
        """Those ranks that share the experts out, by position; (rank,) or () if this one has them all."""

    def gather_counts(self, counts: Array) -> Array:
        """Every rank's counts, (ranks, num_experts), from this rank's, int64 (num_experts,)."""

    def exchange(self, rows: Array, table: Array) -> Array:
        """The rows for this position, from positions 0, 1 and so on.

        ``rows`` are sorted by the position that they go to. ``table[s, d]``: rows from position s to d.
        """


@dataclass(frozen=True)
class Alone:
    """Nobody else: what is sent is what arrives."""

    rank: int = 0
    sharing: tuple[int, ...] = (0,)

    def gather_counts(self, counts: Array) -> Array:
        return counts[None]

    def exchange(self, rows: Array, table: Array) -> Array:
        return rows


ALONE = Alone()


class CommunicatorPeers:
    """Ranks that talk over ``data``, all that hold rows, and ``expert``, those that share the experts out.

    ``sharing``: which of the ranks of ``data`` the latter are, by position; ``expert`` is None where each
    rank has all experts. ``empty`` makes what rows arrive in.
    """

    def __init__(
        self,
        data: Communicator,
        expert: Communicator | None,
        sharing: Sequence[int],
        empty: Empty = np.empty,
    ) -> None:
        self.data, self.expert, self.empty = data, expert, empty
        self.rank: int = data.rank
        self.sharing = tuple(sharing)

    def gather_counts(self, counts: Array) -> Array:
        gathered = np.empty((self.data.world_size, counts.size), np.int64)
        with self.data.labelled(self.data.label._replace(kind="control")):
            self.data.all_gather(counts, gathered, sizes=(counts.size,) * len(gathered)).wait()
        return gathered

    def exchange(self, rows: Array, table: Array) -> Array:
        if self.expert is None:
            return rows
        width = rows.shape[1]
        arrived = self.empty((int(table[:, self.expert.rank].sum()), width), rows.dtype)
        self.expert.all_to_all(rows, arrived, sizes=(table * width).tolist()).wait()
        return arrived
