"""Which sizes are measured: ``4K-32M`` and the like, as nccl-tests takes them."""

import re

MOST_BYTES = 2**40
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def parse_sizes(text: str, factor: int) -> list[int]:
    """Bytes, from ``4K``, ``4K,1M`` or ``4K-32M``: a range goes up by ``factor``.

    K, M and G are powers of 1024. ValueError for what is no such list.

    >>> parse_sizes("4K-64K,1M", 4)
    [4096, 16384, 65536, 1048576]
    """
    sizes: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        size, end = _parse(first, text), _parse(last if dash else first, text)
        if end < size:
            raise ValueError(f"sizes {part}: they go up, write {last}-{first}")
        while size <= end:
            sizes.append(size)
            size *= factor
    return sizes


def _parse(word: str, text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,13})([KMG]?)i?B?", word.strip(), re.IGNORECASE)
    size = int(found[1]) * UNITS[found[2].upper()] if found else 0
    if not 1 <= size <= MOST_BYTES:
        raise ValueError(f"{text!r} are no sizes: write 4K-32M, or 4K,1M, from 1 byte to {MOST_BYTES >> 30}G")
    return size
