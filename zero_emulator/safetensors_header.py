"""The tensors that a safetensors file declares, from its header alone.

The format: a little-endian 8-byte length, a JSON object of that length, then the data, which is neither read
nor needed here. Source: github.com/huggingface/safetensors, README, "Format".
"""

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from zero_emulator.precision import ITEMSIZE

LONGEST_HEADER = 100_000_000
"""Bytes; the limit of the format's own reader."""

LONGEST_NAME = 300

DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""What can be trained. Integers and narrower floats are weights that were quantized."""


@dataclass(frozen=True)
class Entry:
    """A tensor as declared: ``begin`` and ``end`` are byte offsets in the data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(path: Path) -> tuple[Entry, ...]:
    """The declared tensors in the order of their data; a ValueError says what is wrong with the header."""
    if not path.is_file():
        raise ValueError(f"{path} is no file: give a .safetensors file")
    with path.open("rb") as file:
        prefix = file.read(8)
        length = int.from_bytes(prefix, "little")
        there = path.stat().st_size - len(prefix)
        if len(prefix) < 8 or length < 2:
            raise ValueError(f"{path}: {len(prefix)} bytes and a header of {length}: no safetensors file")
        if length > LONGEST_HEADER:
            raise ValueError(
                f"{path}: a header of {length} bytes, {LONGEST_HEADER} are the most: not safetensors"
            )
        if length > there:
            raise ValueError(f"{path}: a header of {length} bytes, {there} are there: fetch the file again")
        return parse_header(file.read(length), str(path))


def parse_header(header: bytes, name: str) -> tuple[Entry, ...]:
    """The tensors of a header, from the bytes of its JSON."""
    try:
        declared = json.loads(header, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: the header is no JSON ({error})") from error
    if not isinstance(declared, dict):
        raise ValueError(f"{name}: the header is {type(declared).__name__}, not an object of tensors")
    entries = [_entry(key, value, name) for key, value in declared.items() if key != "__metadata__"]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    end, before = 0, "the start"
    for entry in entries:
        if entry.begin != end:
            fault = "overlaps" if entry.begin < end else "leaves a hole after"
            raise ValueError(f"{name}: {entry.name} begins at byte {entry.begin}, {fault} {before}, at {end}")
        end, before = entry.end, entry.name
    return tuple(entries)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name twice")
    return found


def _entry(key: str, value: Any, name: str) -> Entry:
    if len(key) > LONGEST_NAME:
        raise ValueError(f"{name}: a tensor's name of {len(key)} characters, {LONGEST_NAME} are the most")
    try:
        dtype, shape, (begin, end) = value["dtype"], value["shape"], value["data_offsets"]
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{name}: {key:.80} is {value!r:.60}: no dtype, shape and data_offsets") from error
    if (
        not isinstance(dtype, str)
        or not isinstance(shape, list)
        or not all(_is_count(number) for number in (*shape, begin, end))
        or begin > end
    ):
        raise ValueError(
            f"{name}: {key:.80} is {dtype!r:.20} of shape {shape!r:.40} from {begin!r:.20} to {end!r:.20}: "
            "give a dtype's name and whole numbers, the end last"
        )
    if dtype in DTYPES and end - begin != prod(shape) * ITEMSIZE[DTYPES[dtype]]:
        raise ValueError(f"{name}: {key:.80} of {dtype} {tuple(shape)!s:.40} has {end - begin} bytes")
    return Entry(key, dtype, tuple(shape), begin, end)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63
