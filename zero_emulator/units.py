"""Sizes as people write them: 80GB, 40GiB, 8e9, 7B."""

import re
from decimal import Decimal, InvalidOperation

KILO = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

MOST_PARAMS = 10**15
"""A thousand trillions: more is a slip of the finger, and 1e999999999 would fill the memory."""


def parse_bytes(text: str) -> int:
    """Bytes from ``80GB`` (10^9), ``80GiB`` (2^30), ``512 MiB`` or ``80e9``; ValueError for what is none."""
    found = re.fullmatch(r"\s*([\d.]+(?:e\d{1,2})?)\s*([kmgt]?)(i?)b?\s*", text, re.IGNORECASE | re.ASCII)
    number = _decimal(found[1]) if found else None
    if found is None or not number or (found[3] and not found[2]):
        raise ValueError(f"{text!r} is no size: write 80GB (10^9 bytes each) or 80GiB (2^30)")
    return int(number * (1024 if found[3] else 1000) ** KILO[found[2].lower()])


def parse_params(text: str) -> int:
    """A number of parameters from ``8e9``, ``8B`` or ``6738415616``; ValueError for what is none."""
    found = re.fullmatch(r"\s*([\d.]+(?:e\d{1,2})?)\s*([KMBT]?)\s*", text, re.IGNORECASE | re.ASCII)
    number = _decimal(found[1]) if found else None
    if found is None or number is None:
        raise ValueError(f"{text!r} is no number of parameters: write 8e9 or 8B")
    params = number * 1000 ** " KMBT".index(found[2].upper() or " ")
    if params != int(params) or not 1 <= params <= MOST_PARAMS:
        raise ValueError(f"{text} parameters: give a whole number from 1 to {MOST_PARAMS:.0e}")
    return int(params)


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:  # two points
        return None


def format_gb(size: int) -> str:
    """In GB of 10^9 bytes, without the unit: ``128.0``, ``1.99``."""
    return _short(size / 10**9)


def format_gib(size: int) -> str:
    """In GiB of 2^30 bytes, without the unit."""
    return _short(size / 2**30)


def _short(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"
