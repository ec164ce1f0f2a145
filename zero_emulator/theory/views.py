"""Which gathered views ZeRO-3 holds, and when: an iteration is a row of visits, each of one layer.

Visit 0 is the first forward. A micro-batch of L layers has 2L visits: forward from layer 0 up, backward from
layer L - 1 down. A gather is needed from one visit to another, and started early by as many gathers as are
prefetched.
"""

from typing import NamedTuple

from zero_emulator.theory.training import KeepViews


class Gather(NamedTuple):
    """The visits at which a view is used first and last, and whose it is."""

    first: int
    last: int
    layer: int


def gathers(num_layers: int, micro_batches: int, keep_views: KeepViews) -> list[Gather]:
    """All gathers of an iteration, in the order in which they are needed.

    >>> gathers(2, 1, "last")
    [Gather(first=0, last=0, layer=0), Gather(first=1, last=2, layer=1), Gather(first=3, last=3, layer=0)]
    """
    kept = {"none": range(0), "last": range(num_layers - 1, num_layers), "all": range(num_layers)}[keep_views]
    found = []
    for micro_batch in range(micro_batches):
        for layer in range(num_layers):
            forward, backward = visits(layer, micro_batch, num_layers)
            if layer in kept:
                found.append(Gather(forward, backward, layer))
            else:
                found += [Gather(forward, forward, layer), Gather(backward, backward, layer)]
    return sorted(found)


def visits(layer: int, micro_batch: int, num_layers: int) -> tuple[int, int]:
    """The forward visit of a layer, and the backward one."""
    start, end = 2 * num_layers * micro_batch, 2 * num_layers * (micro_batch + 1)
    return start + layer, end - 1 - layer


def views_held(found: list[Gather], visit: int, prefetch: int, *, after: bool = False) -> list[int]:
    """The layers whose views are held during a visit, or after it; a layer may be there twice.

    Gather k is started when gather k - prefetch is needed first, and dropped after its last use.
    """
    return [
        gather.layer
        for k, gather in enumerate(found)
        if found[max(0, k - prefetch)].first <= visit < gather.last + (not after)
    ]


def views_in_flight(found: list[Gather], visit: int, prefetch: int, *, waits: bool = False) -> list[int]:
    """The layers whose gathers are started and not awaited by a visit; with its own if it still ``waits``."""
    return [
        gather.layer
        for k, gather in enumerate(found)
        if found[max(0, k - prefetch)].first <= visit < gather.first + waits
    ]
