"""ZeRO-2 for a model in chunks: gradients add up over a run of micro-batches, and are reduced once a run."""

from functools import partial
from typing import Any, NamedTuple

from collectives.blocks import bounds
from collectives.communicator import IN_PLACE
from collectives.work import Work
from zero_emulator.dtypes import add_into, dtype_of
from zero_emulator.layout import Array
from zero_emulator.offload import Slot, Slots
from zero_emulator.partition import Share
from zero_emulator.pipeline import runs
from zero_emulator.strategies.base import Strategy


class Run(NamedTuple):
    """Backwards of one chunk that follow one another: what they add up shares an accumulator."""

    chunk: int
    layers: range
    micro_batches: tuple[int, ...]
    is_first: bool
    """Whether it is the chunk's first in an iteration, so that its gradient replaces the last one's."""

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.micro_batches))
        return f"the gradient of chunk {self.chunk} over micro-batches {numbers}"

    def begins(self, layer: int, micro_batch: int) -> bool:
        """Whether that is its first backward of a layer."""
        return (layer, micro_batch) == (self.layers[-1], self.micro_batches[0])


def plan_runs(share: Share) -> dict[tuple[int, int], Run]:
    """The run that each backward of a rank belongs to, by layer and micro-batch."""
    planned: dict[tuple[int, int], Run] = {}
    begun: set[int] = set()
    for chunk, micro_batches in runs(share.order):
        layers = share.chunks[chunk]
        run = Run(chunk, layers, micro_batches, chunk not in begun)
        begun.add(chunk)
        planned.update({(layer, one): run for layer in layers for one in micro_batches})
    return planned


class PipelineZero2(Strategy):
    """Add up each run's gradients in one of two accumulators, reduce-scatter it into shards, then as ZeRO-2.

    The reductions of a run are in flight while the next one fills the other accumulator. With V chunks of φ
    parameters a rank holds V φ bg / N + 2 φ bg bytes of gradients and not V φ bg, which is less for
    V > 2N / (N - 1). It sends f(N) (K + 1) Ψ where a chunk has K runs, between ZeRO-1 and ZeRO-2.
    """

    name = "pipeline_zero2"
    stage = 2

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.runs = plan_runs(self.share)
        self.places = {  # of each layer in the accumulator of its chunk
            layer: place
            for layers in self.share.chunks.values()
            for layer, place in zip(layers, bounds([self.layers[one].size for one in layers]), strict=True)
        }
        self.slots = Slots(partial(self.meter.empty, "accumulator"))
        self.slot: Slot | None = None  # of the run that is under way
        self.reducing: list[Work] = []

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
        self.poll()

    def after_backward(self, layer: int, micro_batch: int) -> None:
        self.close(layer)
        self.poll()
        run, gradient = self.runs[layer, micro_batch], self.take_gradient()
        if not self.writes_to_accumulator(layer, micro_batch):
            add_into(self.accumulated(layer), gradient, replace=micro_batch == run.micro_batches[0])
            self.buffers.give_back(gradient)
        if micro_batch == run.micro_batches[-1]:
            self.reduce(layer, run)

    def finish_iteration(self, iteration: int) -> None:
        self.slots.drain()
        self.slot, self.reducing = None, []
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
        sharers, wire = self.groups[layer].sharers, self.accumulated(layer)
        if wire.dtype != dtype_of(self.precision.reduce):
            cast = self.buffers.take("buffer", wire.size, self.precision.reduce)
            cast[...] = wire
            wire = cast
        work = sharers.reduce_scatter(IN_PLACE, wire, **self.how("reduce_scatter", layer))
        self.reducing.append(work)
        number = self.groups[layer].number
        self.slot.used_by(f"the reduce_scatter of layer {number}", partial(self.take, layer, run, work, wire))

    def take(self, layer: int, run: Run, work: Work, wire: Array) -> None:
        """Finish a reduction, and add this rank's block to its shard."""
        work.wait()
        params = self.layers[layer]
        add_into(params.summed_grad, wire[params.own], replace=run.is_first)
        params.narrow_grad()
        self.buffers.give_back(wire)

    def poll(self) -> None:
        """Move the reductions along: nobody else does while this rank computes."""
        self.reducing = [work for work in self.reducing if not work.poll()]
