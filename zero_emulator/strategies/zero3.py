"""ZeRO-3: weights are sharded too. A layer's full view is gathered when its turn comes, and dropped after."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from collectives.algorithms import Algorithm
from collectives.communicator import IN_PLACE
from collectives.work import Work
from zero_emulator.dtypes import dtype_of
from zero_emulator.layout import Array
from zero_emulator.pipeline import Backward, Forward
from zero_emulator.share import Share
from zero_emulator.strategies.base import Strategy
from zero_emulator.strategies.zero2 import Zero2
from zero_emulator.theory import KeepViews


class Visit(NamedTuple):
    """One use of a layer: which gather serves it, and whether no later use has the same view."""

    phase: str
    layer: int
    gather: int
    last_use: bool


class _Gathered(NamedTuple):
    work: Work
    view: Array
    versions: npt.NDArray[np.int64]


def plan_visits(share: Share, keep_views: KeepViews) -> tuple[Visit, ...]:
    """A rank's layers in the order in which an iteration uses them, forward and backward.

    Gathers are numbered in the order in which they are needed. A backward that finds its view kept from the
    forward has that forward's gather.
    """
    return tuple(_visits(share, keep_views))


def _visits(share: Share, keep_views: KeepViews) -> Iterator[Visit]:
    gather, kept = 0, {}
    for action in share.order:
        if isinstance(action, Forward):
            for layer in share.chunks[action.chunk]:
                keep = keep_views == "all" or (keep_views == "last" and layer == len(share.held) - 1)
                if keep:
                    kept[layer, action.micro_batch] = gather
                yield Visit("forward", layer, gather, not keep)
                gather += 1
        elif isinstance(action, Backward):
            for layer in reversed(share.chunks[action.chunk]):
                if (layer, action.micro_batch) in kept:
                    yield Visit("backward", layer, kept.pop((layer, action.micro_batch)), True)
                else:
                    yield Visit("backward", layer, gather, True)
                    gather += 1


class GatheredViews(Strategy):
    """Gather a layer before its forward and again before its backward. For a strategy to stand on."""

    gathers_views = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        options = self.options
        self.visits = plan_visits(self.share, options.keep_views)
        first_uses = {visit.gather: visit for visit in reversed(self.visits)}
        self.gathers: Sequence[Visit] = [first_uses[gather] for gather in range(len(first_uses))]
        self.gathered: dict[int, _Gathered] = {}
        self.at = 0  # the visit whose turn it is
        self.started = 0  # gathers, in this iteration

    def before_forward(self, layer: int, micro_batch: int) -> None:
        self.unshard()
        super().before_forward(layer, micro_batch)

    def after_forward(self, layer: int, micro_batch: int) -> None:
        super().after_forward(layer, micro_batch)
        self.reshard()

    def before_backward(self, layer: int, micro_batch: int) -> None:
        self.unshard()
        super().before_backward(layer, micro_batch)

    def after_backward(self, layer: int, micro_batch: int) -> None:
        self.close(layer)
        self.reshard()
        super().after_backward(layer, micro_batch)  # type: ignore[safe-super] # not abstract below it

    def finish_iteration(self, iteration: int) -> None:
        self.settle()
        self.update(iteration)

    def advance(self) -> None:
        super().advance()
        self.at = self.started = 0

    def full_weight(self, layer: int) -> Array:
        visit = self.visits[self.at]
        assert visit.layer == layer, "the trainer visits the layers in the planned order"
        gathered = self.gathered[visit.gather]
        self.check_version(layer, gathered.versions)
        return gathered.view

    def unshard(self) -> None:
        """Have the view of this visit, and the next ``prefetch`` gathers in flight."""
        needed = self.visits[self.at].gather
        while self.started < min(len(self.gathers), needed + 1 + self.options.prefetch):
            visit = self.gathers[self.started]
            with self.labelled(visit.layer, phase=visit.phase):
                algorithm = self.options.algorithms["all_gather"]
                self.gathered[self.started] = self.start_gather(visit.layer, algorithm)
            self.started += 1
        self.gathered[needed].work.wait()

    def reshard(self) -> None:
        """Drop the view, unless a later visit uses it."""
        visit = self.visits[self.at]
        self.at += 1
        if visit.last_use:
            self.buffers.give_back(self.gathered.pop(visit.gather).view)

    def start_gather(self, layer: int, algorithm: str | Algorithm = "ring") -> _Gathered:
        """Start to gather a layer, in the dtype of the wire."""
        params, sharers = self.layers[layer], self.groups[layer].sharers
        view = self.buffers.take("view", params.size, self.precision.weight_wire)
        if view.dtype == params.weight.dtype:
            work = sharers.all_gather(params.weight, view, sizes=params.sizes, algorithm=algorithm)
        else:
            view[params.own] = params.weight
            work = sharers.all_gather(IN_PLACE, view, sizes=params.sizes, algorithm=algorithm)
        return _Gathered(work, view, self.versions.of(layer))

    def gather_weight(self, layer: int) -> Array:
        gathered = self.start_gather(layer)
        gathered.work.wait()
        self.check_version(layer, gathered.versions)
        return gathered.view.astype(dtype_of(self.precision.compute))


class Zero3(GatheredViews, Zero2):
    """Gather a layer before its forward and again before its backward; gradients go as in ZeRO-2.

    A rank sends f(N) 3 M Ψ; f(N) 2 M Ψ if views are kept, which then are all alive at once.
    Source: S. Rajbhandari et al., ZeRO, SC 2020.
    """

    name = "zero3"
    stage = 3
