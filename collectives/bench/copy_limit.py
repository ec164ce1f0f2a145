"""The bound that memory sets: how fast the ranks of this machine copy, all at once."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from collectives.bench.sizes import UNITS
from collectives.transports.base import Transport

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
LEAST_BYTES, MOST_BYTES = 64 << 20, 1 << 30
REPEATS = 7


def beyond_cache(caches: Path = CACHES) -> int:
    """Bytes that no cache of this machine holds: four times the largest, 64 MiB to 1 GiB."""
    sizes = [path.read_text().strip() for path in caches.glob("index*/size")]
    largest = max((int(size.rstrip("KMG")) * UNITS[size[-1]] for size in sizes), default=0)
    return min(MOST_BYTES, max(LEAST_BYTES, 4 * largest))


def copy_bandwidth(transport: Transport, meet: Callable[[], object], num_bytes: int) -> float:
    """Bytes a second that each rank copies with np.copyto while all of them do: the median, after a warm-up.

    A message must be copied at least once, so this is what a bus bandwidth can reach on one machine.
    """
    source, target = np.ones(num_bytes, np.uint8), np.empty(num_bytes, np.uint8)
    seconds = []
    for _ in range(1 + REPEATS):
        meet()
        start = time.perf_counter()
        np.copyto(target, source)
        seconds.append(time.perf_counter() - start)
    slowest = [max(spent) for spent in zip(*transport.exchange(seconds[1:]), strict=True)]
    return float(num_bytes / median(slowest))
