"""The processes of a launched job, as its witnesses wrote them down: who is gone, and who is stopped."""

from collections.abc import Collection
from typing import NamedTuple

from collectives.launching.processes import Process
from collectives.launching.rank_notes import LAST_WORDS, read_notes


class RankProcesses(NamedTuple):
    """A rank's own process, None if it had ended before it was written down, and its witness."""

    rank: int
    witness: Process
    main: Process | None


def rank_processes(directory: str) -> list[RankProcesses]:
    """The processes of every rank that has a witness by now, in the order of the ranks."""
    found = []
    for note in read_notes(directory, "pids"):
        witness, main = note.text.split()
        found.append(
            RankProcesses(note.rank, Process.parse(witness), None if main == "None" else Process.parse(main))
        )
    return sorted(found)


def gone_without_a_word(directory: str) -> list[int]:
    """The ranks whose witness was killed before it could say anything."""
    gone = [one.rank for one in rank_processes(directory) if not one.witness.alive]
    # Read after that: a witness leaves its note, and then ends.
    told = {note.rank for note in read_notes(directory, *LAST_WORDS)}
    return [rank for rank in gone if rank not in told]


def unwatched(directory: str) -> list[int]:
    """The ranks whose witness is stopped: how they end, nobody sees."""
    return [one.rank for one in rank_processes(directory) if one.witness.stopped]


def who_is_stopped(directory: str) -> str:
    """`` (rank 2 is stopped)``, to be added to what is said of a wait in vain; nothing if none is."""
    stopped = [one.rank for one in rank_processes(directory) if one.main is not None and one.main.stopped]
    told = [f"{name_ranks(stopped)} {'is' if len(stopped) == 1 else 'are'} stopped"] if stopped else []
    if blind := unwatched(directory):
        told.append(f"the watch over {name_ranks(blind)} is stopped")
    return f" ({' and '.join(told)})" if told else ""


def name_ranks(ranks: Collection[int]) -> str:
    """``rank 2``, or ``ranks 0, 2, 3``."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
