"""What is alive on a rank, by kind."""

from collections import Counter

from zero_emulator.strategies import Strategy


def kept_bytes(strategy: Strategy) -> dict[str, int]:
    """Bytes that a rank keeps between iterations, by kind, from the arrays that are alive.

    An array counts with the whole memory that it keeps alive: a view of something larger is charged for all
    of it, so a shard that is a slice of the full weight does not pass for small.
    """
    kept: Counter[str] = Counter()
    for params in strategy.layers:
        for kind, arrays in params.arrays().items():
            kept[kind] += sum((array if array.base is None else array.base).nbytes for array in arrays)
    return dict(kept)
