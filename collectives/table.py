"""Text in columns, and numbers with their nouns."""

from collections.abc import Sequence


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Rows under their heads, each column as wide as it must be; those numbered in ``right`` flush right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    )


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """``1 rank``, ``2 ranks``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
