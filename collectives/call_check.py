"""Whether all ranks are about to call the same thing: a difference is an error on all of them, not a hang.

Each call of a rank is written into a record of fixed size, and the records are gathered by a ring: two
calls that differ have records that differ, except for a collision of CRC-32 in what the text leaves out.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from collectives.algorithms import Algorithm, find_algorithm
from collectives.bindings import Bindings
from collectives.engine import place, walk
from collectives.ledger import Call, Origin
from collectives.promises import Sizes, all_sizes
from collectives.schedule import ScheduleError
from collectives.transports.base import Pending, Transport

RECORD_BYTES = 128
"""A checksum of the whole description, and as much of its text as fits."""


class CallMismatchError(ValueError):
    """Two ranks make different calls; the message names both sides."""


def describe(
    algorithm: Algorithm, operator: str | None, dtype: np.dtype[Any], sizes: Sizes, num_chunks: int
) -> bytes:
    """The record of a call; ``sizes`` is empty where ranks do not all know them."""
    kind = dtype_name(dtype)
    root = None if algorithm.collective.root is None else f"root {algorithm.collective.root}"
    what = f"{algorithm.collective.name}({', '.join(filter(None, (operator, kind, algorithm.name, root)))})"
    if not sizes:
        return _record(what)
    numbers = all_sizes(sizes)
    chunks = f" in {num_chunks} chunks each" if num_chunks > 1 else ""
    text = f"{what} of {sum(numbers)} elements{chunks}, in blocks of {', '.join(map(str, numbers))}"
    return _record(text)


def dtype_name(dtype: np.dtype[Any]) -> str:
    """What tells it from every other one of numbers, in its byte order too."""
    return dtype.name if dtype.isnative else dtype.str


def describe_refusal(collective: str, error: Exception) -> bytes:
    """The record of a call that this rank cannot make: the others are told instead of left waiting."""
    known = isinstance(error, (ValueError, ScheduleError))
    return _record(f"{collective}, but cannot: {error if known else f'{type(error).__name__}: {error}'}")


def _record(text: str) -> bytes:
    data = text.encode(errors="backslashreplace")
    return (b"%08x" % zlib.crc32(data) + data)[:RECORD_BYTES].ljust(RECORD_BYTES, b"\0")


def check_calls(
    transport: Transport, tag: int, call: Call, record: bytes, bindings: Bindings
) -> Iterator[tuple[Pending, Origin]]:
    """A lane that gathers every rank's record, and raises CallMismatchError if they differ."""
    records: npt.NDArray[np.uint8] = np.empty((transport.world_size, len(record)), np.uint8)
    records[transport.rank] = np.frombuffer(record, np.uint8)
    flat = records.reshape(-1)
    ring = find_algorithm("ring", "all_gather")
    sizes = (len(record),) * transport.world_size
    binding = bindings.get(ring, transport.rank, sizes, 1, True, 1)
    label = call.label._replace(kind="control")
    check = call._replace(collective="call_check", algorithm="ring", label=label)
    yield from walk(place(binding.lanes[0], flat, flat, flat, None), transport, tag, check, 0)
    for rank in range(1, transport.world_size):
        if (records[rank] != records[0]).any():
            raise CallMismatchError(
                f"call #{call.number} differs between ranks: {transport.tell(0)} calls {_text(records[0])}, "
                f"{transport.tell(rank)} calls {_text(records[rank])}{_where(records[0], records[rank])}"
            )


def _text(record: npt.NDArray[np.uint8]) -> str:
    text = record.tobytes()[8:].rstrip(b"\0").decode(errors="replace")
    return text if len(text) < RECORD_BYTES - 8 else text + "..."


def _where(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> str:
    """What to add when the texts, as far as they go, are alike."""
    if _text(one) != _text(other):
        return ""
    return ": they differ in a block whose size is beyond these texts, so compare the sizes"
