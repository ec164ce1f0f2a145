"""The traffic of a script in words: a matrix, and tables by collective and by line."""

import os
from collections.abc import Callable
from typing import Any

from collectives.account.traffic import Kind, Traffic, grouped, matrix, not_counted
from collectives.table import counted, format_table


def report(traffic: Traffic) -> str:
    """The whole report."""
    total = grouped(traffic, lambda kind: None).get(None, (0, 0))
    num_ranks = counted(len(traffic.ranks), "rank")
    head = f"{traffic.script} on {num_ranks}: {counted(total[1], 'byte')} in {counted(total[0], 'message')}"
    parts = [head, _missing(traffic), _matrix(traffic)]
    if total[0]:
        parts.append(_table(traffic, ("collective", "algorithm", ""), lambda kind: kind[1:4]))
        parts.append(
            _table(traffic, ("called from", "collective"), lambda kind: (_short(kind.site), kind[1]))
        )
    parts.append(_not_counted(traffic))
    return "\n\n".join(filter(None, parts))


def _missing(traffic: Traffic) -> str:
    lost = [str(rank) for rank, told in enumerate(traffic.ranks) if told is None]
    return f"without what was sent by rank {', '.join(lost)}: no word from there any more" if lost else ""


def _matrix(traffic: Traffic) -> str:
    ranks = range(len(traffic.ranks))
    rows = [
        [f"from rank {sender}", *("?" if size is None else str(size) for size in row)]
        for sender, row in enumerate(matrix(traffic))
    ]
    head = ["bytes", *(f"to {receiver}" for receiver in ranks)]
    return format_table(head, rows, right=range(1, len(ranks) + 1))


def _table(traffic: Traffic, names: tuple[str, ...], key: Callable[[Kind], tuple[Any, ...]]) -> str:
    rows = [
        [*map(str, group), str(messages), str(num_bytes)]
        for group, (messages, num_bytes) in grouped(traffic, key).items()
    ]
    width = len(names)
    return format_table([*names, "messages", "bytes"], rows, right=(width, width + 1))


def _not_counted(traffic: Traffic) -> str:
    calls = not_counted(traffic)
    if not calls:
        return "nothing was called that is not counted"
    listed = ", ".join(f"{name} ({counted(number, 'call')})" for name, number in calls.items())
    return f"not counted: {listed}"


def _short(site: str) -> str:
    """A path in the current folder is told from there."""
    inside = os.path.relpath(site)
    return site if inside.startswith(os.pardir) else inside
