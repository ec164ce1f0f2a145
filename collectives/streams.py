"""The streams that a command was started with: closed, full, or read by nobody."""

import io
import os
import select
import sys
from typing import Any

STANDARD = (0, 1, 2)


def secure_streams() -> None:
    """From here on nothing that is said on stderr costs a command its result, if it is closed or full.

    Stdout carries the result: ValueError if it is closed, BrokenPipeError if nobody reads it, while nothing
    has begun. That a disk is full shows only in writing.
    """
    closed = sys.stdout is None
    for descriptor in STANDARD:
        _occupy(descriptor)
    if sys.stderr is sys.__stderr__:
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(_Lossy(2, "w", closefd=False)), errors="backslashreplace", line_buffering=True
        )
    if closed:
        raise ValueError("stdout is closed: give it a place, such as >/dev/null")
    if sys.stdout is sys.__stdout__ and _nobody_reads(1):
        raise BrokenPipeError


class _Lossy(io.FileIO):
    """A file that takes everything, and keeps what it can."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _occupy(descriptor: int) -> None:
    """Let a closed one lead nowhere: the next file to be opened would get its number, and what is printed."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one


def _nobody_reads(descriptor: int) -> bool:
    """Whether it is a pipe whose reader has left."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
