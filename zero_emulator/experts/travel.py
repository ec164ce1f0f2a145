"""Which rows go to which rank, and where they stand: a row for every pair of a sample and its expert.

Experts are shared out in order, so rows that are sorted by expert are sorted by destination, too. All of it
follows from the pairs of one rank and the counts of all.
"""

from typing import NamedTuple

import numpy as np

from zero_emulator.layout import Array

NUM_EXCHANGES = 4
"""A micro-batch: rows to their experts and results back, then the gradients of both."""


class Sent(NamedTuple):
    """What one expert gets of this rank: the samples, and where they stand in all that is sent."""

    expert: int
    samples: Array
    place: slice


class Arrived(NamedTuple):
    """What one expert here gets of all ranks: which rows that arrive, and where they stand by expert."""

    rows: Array
    place: slice


class Travel(NamedTuple):
    """The way of a micro-batch, as one rank sees it. ``table[s, d]``: rows from position s to d."""

    table: Array
    sent: tuple[Sent, ...]
    arrived: tuple[Arrived, ...]

    @property
    def num_sent(self) -> int:
        """Rows that this rank hands over, to itself included."""
        return sum(len(samples) for _, samples, _ in self.sent)


def travel_table(counts: Array) -> Array:
    """Rows from each position to each, int64 (positions, positions).

    ``counts`` (positions, num_experts): the pairs of every rank that shares the experts.

    >>> travel_table(np.array([[1, 2, 0, 0], [3, 0, 1, 1]])).tolist()
    [[3, 0], [3, 2]]
    """
    positions = len(counts)
    return np.asarray(counts.reshape(positions, positions, -1).sum(axis=2))


def exchanged_rows(table: Array, position: int) -> tuple[int, int]:
    """Rows that one position sends to others and receives from others, in an exchange by this table.

    What is its own never leaves it. On the way back the two change places: in the NUM_EXCHANGES of a
    micro-batch it sends twice the sum of both.

    >>> exchanged_rows(np.array([[3, 0], [3, 2]]), 0)
    (0, 3)
    """
    own = int(table[position, position])
    return int(table[position].sum()) - own, int(table[:, position].sum()) - own


def plan_travel(pairs: Array, counts: Array, here: range) -> Travel:
    """The way of this rank's ``pairs``, bools (rows, num_experts), and of what comes to the experts ``here``.

    ``counts`` as for ``travel_table``; rows arrive position by position, sorted by expert in each.
    """
    samples = [np.flatnonzero(column) for column in pairs.T]
    sent = [Sent(expert, rows, place) for expert, (rows, place) in enumerate(_placed(samples))]
    local = counts[:, here.start : here.stop]
    experts = np.repeat(np.tile(here, len(counts)), local.ravel())  # of each row that arrives
    arrived = [Arrived(*placed) for placed in _placed([np.flatnonzero(experts == e) for e in here])]
    return Travel(travel_table(counts), tuple(sent), tuple(arrived))


def _placed(groups: list[Array]) -> list[tuple[Array, slice]]:
    """Each group, and where it stands when they lie one behind the other."""
    ends = np.cumsum([len(group) for group in groups]).tolist()
    return [(group, slice(end - len(group), end)) for group, end in zip(groups, ends, strict=True)]
