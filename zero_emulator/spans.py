"""Least and most of several numbers, as reports print them."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=float)


def span(values: Iterable[T], form: Callable[[T], str] = str) -> str:
    """``least..most``, or one of the two where they print alike.

    >>> span([28, 24]), span([24, 24]), span([1.9998, 2.0001], "{:.3f}".format)
    ('24..28', '24', '2.000')
    """
    every = [*values]
    low, high = form(min(every)), form(max(every))
    return low if low == high else f"{low}..{high}"


def signed(number: int) -> str:
    """A number with its sign; 0 has none.

    >>> [signed(number) for number in (3, 0, -3)]
    ['+3', '0', '-3']
    """
    return f"{number:+}" if number else "0"
