"""The link between host and device: what it copies, it counts."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Literal, NamedTuple

import numpy as np

from zero_emulator.layout import Array

Direction = Literal["to host", "to device"]


class Copy(NamedTuple):
    """A copy beside which a rank computed: measured seconds of computing, and the modelled stall."""

    name: str
    num_bytes: int
    direction: Direction
    compute_seconds: float
    """Between handing the copy over and the moment its result was needed."""
    modelled_stall: float | None
    """Seconds that the rank would wait on a link of that bandwidth; None where none is given."""


class Link:
    """Copies between host and device, and the bytes that went each way.

    A copy here costs what NumPy's takes. ``bandwidth``, in bytes a second, is that of a link to be modelled:
    it slows nothing down, and only says in ``log`` what a rank would have waited for. Whoever reads the log
    may clear it. Any thread may copy; ValueError for a bandwidth that is not above 0.
    """

    def __init__(
        self, bandwidth: float | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        if bandwidth is not None:
            _check_bandwidth(bandwidth)
        self.bandwidth, self.clock = bandwidth, clock
        self.to_host_bytes = self.to_device_bytes = 0
        self.log: list[Copy] = []
        self._lock = Lock()

    def to_host(self, source: Array, target: Array) -> None:
        """Copy an array of the device into one of the host; ValueError unless shape and dtype are equal."""
        _copy(source, target, "to host")
        with self._lock:
            self.to_host_bytes += source.nbytes

    def to_device(self, source: Array, target: Array) -> None:
        """Copy an array of the host into one of the device; ValueError unless shape and dtype are equal."""
        _copy(source, target, "to device")
        with self._lock:
            self.to_device_bytes += source.nbytes

    def note(self, name: str, num_bytes: int, direction: Direction, compute_seconds: float) -> None:
        """Log a copy, with its modelled stall."""
        stall = None
        if self.bandwidth is not None:
            stall = modelled_stall(num_bytes, self.bandwidth, compute_seconds)
        self.log.append(Copy(name, num_bytes, direction, compute_seconds, stall))


def modelled_stall(num_bytes: int, bandwidth: float, compute_seconds: float) -> float:
    """Seconds that a rank waits for a copy beside which it computed, on a link with nothing else to do.

    >>> modelled_stall(6 * 10**9, 2e9, 1.0), modelled_stall(6 * 10**9, 2e9, 4.0)
    (2.0, 0.0)
    """
    _check_bandwidth(bandwidth)
    return max(0.0, num_bytes / bandwidth - compute_seconds)


def _check_bandwidth(bandwidth: float) -> None:
    if not bandwidth > 0:  # NaN is not
        raise ValueError(f"a link of {bandwidth:g} bytes a second moves nothing: give more than 0, or None")


def _copy(source: Array, target: Array, direction: Direction) -> None:
    """Nothing is broadcast or cast: a link moves bytes."""
    if source.shape != target.shape or source.dtype != target.dtype:
        raise ValueError(
            f"copy {direction}: {source.dtype} of shape {source.shape} into {target.dtype} of shape "
            f"{target.shape}: make both alike"
        )
    np.copyto(target, source)
