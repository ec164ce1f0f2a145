"""The closed forms that families share, for p ranks: each schedule says its own, and the proof checks it."""

from collections.abc import Callable

from collectives.algorithms.algorithm import POWER_OF_TWO, Cost


def _others(p: int) -> int:
    return p - 1


def _twice(p: int) -> int:
    return 2 * (p - 1)


def _log_down(p: int) -> int:
    return p.bit_length() - 1


def _log_up(p: int) -> int:
    return (p - 1).bit_length()


def _folds(p: int) -> int:
    """1 if some ranks are folded in, 0 on a power of two."""
    return int(not POWER_OF_TWO.allows(p))


def _largest_gathered(p: int) -> int:
    """The most blocks that a rank other than the root has in hand in a binomial tree."""
    if p == 1:
        return 0
    half = 1 << _log_up(p) - 1
    return max(p - half, half // 2)


def _least_bytes(steps: Callable[[int], int]) -> Cost:
    """Of a gathering or a scattering: every rank sends as many blocks as there are others."""
    return Cost(steps, _others)


RING = _least_bytes(_others)
RING_TWICE = Cost(_twice, _twice)
LOG = _least_bytes(_log_up)
NEIGHBORS = _least_bytes(lambda p: p // 2)
DIRECT = _least_bytes(lambda p: min(1, p - 1))
DIRECT_TWICE = Cost(lambda p: 2 * min(1, p - 1), _twice)
HALVING = Cost(lambda p: _log_down(p) + 2 * _folds(p), lambda p: p - 1 + _folds(p))
DOUBLING = Cost(lambda p: _log_down(p) + 2 * _folds(p), lambda p: p * (_log_down(p) + _folds(p)))
RABENSEIFNER = Cost(lambda p: _log_down(p) + _log_up(p) + 2 * _folds(p), lambda p: _twice(p) + _folds(p))
TREE = Cost(lambda p: 2 * _log_up(p), lambda p: p * _log_up(p))

BROADCAST = Cost(_log_up, lambda p: p * _log_up(p))
REDUCE = Cost(_log_up, lambda p: p * (p > 1))
ORDERED_REDUCE = Cost(lambda p: _log_up(p) + (p > 1), lambda p: p * (p > 1))
CHAIN = Cost(_twice, lambda p: p * (p > 1))
SCATTER_ALL_GATHER = Cost(lambda p: _log_up(p) + p - 1, _twice)
RING_GATHER = Cost(lambda p: p - 1 + _log_up(p), lambda p: p - 1 + _largest_gathered(p))
GATHER = Cost(_log_up, _largest_gathered)
DIRECT_GATHER = Cost(lambda p: min(1, p - 1), lambda p: min(1, p - 1))
BRUCK_ALL_TO_ALL = Cost(_log_up, lambda p: sum(way.bit_count() for way in range(p)))
SCAN = Cost(_log_up, lambda p: p * _log_up(p))
EXSCAN = Cost(
    lambda p: min(1, p - 1) + _log_up(max(1, p - 1)), lambda p: p * (min(1, p - 1) + _log_up(max(1, p - 1)))
)
