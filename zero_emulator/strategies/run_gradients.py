"""Gradients that add up over a run of micro-batches, in one of two accumulators, and are then reduced."""

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from collectives.blocks import bounds
from collectives.communicator import IN_PLACE
from zero_emulator.dtypes import add_into, dtype_of
from zero_emulator.layout import Array
from zero_emulator.offload import Slot
from zero_emulator.pipeline import Backward, runs
from zero_emulator.share import Share
from zero_emulator.strategies.base import Strategy
from zero_emulator.strategies.reduction import Reduction, reduction_to


class Run(NamedTuple):
    """Backwards of some layers that follow one another: what they add up shares an accumulator."""

    layers: range
    micro_batches: tuple[int, ...]
    is_first: bool
    """Whether it is the layers' first in an iteration, so that its gradient replaces the last one's."""

    def __str__(self) -> str:
        layers, micro_batches = (", ".join(map(str, one)) for one in (self.layers, self.micro_batches))
        return f"the gradient of own layers {layers} over micro-batches {micro_batches}"

    def begins(self, layer: int, micro_batch: int) -> bool:
        """Whether that is its first backward of a layer."""
        return (layer, micro_batch) == (self.layers[-1], self.micro_batches[0])


def chunk_runs(share: Share) -> Iterator[Run]:
    """A run is all the micro-batches that a chunk runs backward on without another in between."""
    begun: set[int] = set()
    for chunk, micro_batches in runs(share.order):
        yield Run(share.chunks[chunk], micro_batches, chunk not in begun)
        begun.add(chunk)


def layer_runs(share: Share) -> Iterator[Run]:
    """A run is one layer on one micro-batch: the least that can be reduced."""
    for action in share.order:
        if isinstance(action, Backward):
            for layer in reversed(share.chunks[action.chunk]):
                yield Run(range(layer, layer + 1), (action.micro_batch,), action.micro_batch == 0)


class RunGradients(Strategy):
    """Add up each run's gradients in one of two accumulators, and reduce-scatter that into shards.

    The reductions of a run are in flight while the next one fills the other accumulator: two are alive at
    most, of the two runs that follow one another. Shards may be on the host: a reduced block is copied there,
    and an accumulator is free only after that.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        planned = tuple(self.plan_runs(self.share))
        self.runs: dict[tuple[int, int], Run] = {}  # by layer and micro-batch
        self.places: dict[int, slice] = {}  # of each layer in the accumulator of its run
        for run in planned:
            self.runs |= dict.fromkeys(product(run.layers, run.micro_batches), run)
            self.places |= zip(run.layers, bounds([self.layers[one].size for one in run.layers]), strict=True)
        self.slot: Slot | None = None  # of the run that is under way
        self.reducing: list[Reduction] = []
        self.reduction = reduction_to(self.host)

    @staticmethod
    @abstractmethod
    def plan_runs(share: Share) -> Iterator[Run]:
        """The runs of an iteration, in turn."""

    def gradient(self, layer: int, micro_batch: int) -> Array:
        run = self.runs[layer, micro_batch]
        if run.begins(layer, micro_batch):
            self.slot = self.slots.next(str(run))
            size = sum(self.layers[one].size for one in run.layers)
            self.slot.write(size, self.layers[layer].summed_grad.dtype)
        if self.writes_to_accumulator(layer, micro_batch):
            self.written = self.accumulated(layer)
        else:
            self.written = self.buffers.take("buffer", self.layers[layer].size, self.precision.compute)
        return self.written

    def after_forward(self, layer: int, micro_batch: int) -> None:
        super().after_forward(layer, micro_batch)
        self.nudge()

    def after_backward(self, layer: int, micro_batch: int) -> None:
        self.close(layer)
        self.nudge()
        run, gradient = self.runs[layer, micro_batch], self.take_gradient()
        if not self.writes_to_accumulator(layer, micro_batch):
            add_into(self.accumulated(layer), gradient, replace=micro_batch == run.micro_batches[0])
            self.buffers.give_back(gradient)
        if micro_batch == run.micro_batches[-1]:
            self.reduce(layer, run)

    def settle(self) -> None:
        """Finish all reductions, and have the shards complete."""
        self.slots.drain()
        self.slot, self.reducing = None, []

    def finish_iteration(self, iteration: int) -> None:
        self.settle()
        self.update(iteration)
        self.gather_updated_weights()

    def writes_to_accumulator(self, layer: int, micro_batch: int) -> bool:
        """Whether backward writes where gradients add up, and not to a buffer that is added."""
        is_first = micro_batch == self.runs[layer, micro_batch].micro_batches[0]
        return is_first and self.layers[layer].summed_grad.dtype == dtype_of(self.precision.compute)

    def accumulated(self, layer: int) -> Array:
        """The layer's place in the accumulator of the run that is under way."""
        assert self.slot is not None, "a run has begun"
        place: Array = self.slot.memory[self.places[layer]]
        return place

    def reduce(self, layer: int, run: Run) -> None:
        """Start to reduce what a run has added up, in a cast of it if it travels in another dtype."""
        assert self.slot is not None, "a run has begun"
        (number, sharers, _), wire = self.groups[layer], self.accumulated(layer)
        if wire.dtype != dtype_of(self.precision.reduce):
            cast = self.buffers.take("buffer", wire.size, self.precision.reduce)
            cast[...] = wire
            wire = cast
        work = sharers.reduce_scatter(IN_PLACE, wire, **self.how("reduce_scatter", layer))
        under_way = self.reduction(f"layer {number}", work, wire, self.layers[layer], replace=run.is_first)
        self.reducing.append(under_way)
        for user, finish in under_way.users:
            self.slot.used_by(user, finish)
        self.slot.used_by(f"layer {number}", partial(self.buffers.give_back, wire))

    def nudge(self) -> None:
        """Move the reductions along: nobody else does while this rank computes.

        None is finished here, or when its memory is freed would depend on how quick the others are.
        """
        self.comm.nudge()
        self.reducing = [one for one in self.reducing if one.wire is not None]
        for one in self.reducing:
            one.go_on()
