"""What a script has sent, added up: from whom to whom, by which collective, from which line."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from collectives.ledger import Entry, Label


class Kind(NamedTuple):
    """What messages of one sender are added up under."""

    receiver: int
    collective: str
    algorithm: str
    purpose: str
    """"data", or "control" for the lengths that go ahead of it."""
    site: str
    """FILE:LINE of the call."""


@dataclass
class RankTraffic:
    """What one rank has sent."""

    num_bytes: Counter[Kind]
    num_messages: Counter[Kind]
    not_counted: dict[str, int]


@dataclass
class Traffic:
    """What all ranks have sent, in rank order. A rank that could not tell any more has None."""

    script: str
    ranks: Sequence[RankTraffic | None]


def add_up(entries: Sequence[Entry], not_counted: dict[str, int]) -> RankTraffic:
    """The traffic of the rank whose ledger has these entries."""
    traffic = RankTraffic(Counter(), Counter(), not_counted)
    for entry in entries:
        call = entry.origin.call
        for receiver, num_bytes in entry.sends:
            kind = Kind(
                receiver, call.collective, call.algorithm, _purpose(call.label), call.label.phase or "?"
            )
            traffic.num_bytes[kind] += num_bytes
            traffic.num_messages[kind] += 1
    return traffic


def _purpose(label: Label) -> str:
    return "control" if label.kind == "control" else "data"


def matrix(traffic: Traffic) -> list[list[int | None]]:
    """Bytes that each rank, a row, has sent to each, a column; None where a rank could not tell."""
    num_ranks = len(traffic.ranks)
    rows: list[list[int | None]] = []
    for rank in traffic.ranks:
        row: list[Any] = [None if rank is None else 0] * num_ranks
        for kind, num_bytes in [] if rank is None else rank.num_bytes.items():
            row[kind.receiver] += num_bytes
        rows.append(row)
    return rows


def grouped(traffic: Traffic, key: Callable[[Kind], Any]) -> dict[Any, tuple[int, int]]:
    """Messages and bytes of all ranks by what ``key`` says of them, most bytes first."""
    messages: Counter[Any] = Counter()
    num_bytes: Counter[Any] = Counter()
    for rank in filter(None, traffic.ranks):
        for kind in rank.num_bytes:
            messages[key(kind)] += rank.num_messages[kind]
            num_bytes[key(kind)] += rank.num_bytes[kind]
    order = sorted(num_bytes, key=lambda group: (-num_bytes[group], str(group)))
    return {group: (messages[group], num_bytes[group]) for group in order}


def not_counted(traffic: Traffic) -> dict[str, int]:
    """Calls of all ranks whose messages nobody counted, by method."""
    calls: Counter[str] = Counter()
    for rank in filter(None, traffic.ranks):
        calls.update(rank.not_counted)
    return dict(sorted(calls.items()))


def document(traffic: Traffic) -> dict[str, Any]:
    """All of it for JSON: every kind of message that a rank has sent is a row."""
    return {
        "schema": "collectives-account/1",
        "script": traffic.script,
        "num_ranks": len(traffic.ranks),
        "bytes": matrix(traffic),
        "messages": [
            {"sender": sender, **kind._asdict(), "num_messages": rank.num_messages[kind], "num_bytes": size}
            for sender, rank in enumerate(traffic.ranks)
            if rank is not None
            for kind, size in rank.num_bytes.items()
        ],
        "not_counted": not_counted(traffic),
    }
