"""Where ranks meet by the transport's own means: what one cannot do there is an error on all of them."""

import pickle
from operator import index
from typing import Any

from collectives.transports.base import Transport

LARGEST = 2**31 - 1
"""An int of MPI's."""


def exchange(transport: Transport, value: object, limit: float) -> list[Any]:
    """Every rank's value, in rank order, on every rank. ValueError on all if one cannot be pickled."""
    told: bytes | str
    try:
        told = pickle.dumps(value)
    except Exception as error:
        told = f"a {type(value).__name__}: {error}"
    found = transport.exchange(told, limit)
    for rank, one in enumerate(found):
        if isinstance(one, str):
            raise ValueError(f"rank {rank} cannot exchange {one}")
    return [pickle.loads(one) for one in found]


def split(transport: Transport, color: int | None, key: int, limit: float) -> Transport | None:
    """A transport among the ranks of the same color. ValueError on all if one's color or key is no number."""
    fault = None
    try:
        color, key = None if color is None else _small("color", color, 0), _small("key", key, -LARGEST)
    except ValueError as error:
        fault = f"cannot split by {error}"
    transport.agree(fault, limit)
    return transport.split(color, key, limit)


def _small(name: str, number: int, least: int) -> int:
    try:
        whole = index(number)
    except TypeError:
        whole = least - 1
    if not least <= whole <= LARGEST:
        raise ValueError(f"{name} {number!r}: give a whole number from {least} to {LARGEST}")
    return whole
