"""ZeRO-2: gradients are sharded too. A full one lives only until it has been reduced."""

from typing import Any, NamedTuple

from collectives.work import Work
from zero_emulator.dtypes import add_into
from zero_emulator.layer_params import LayerParams
from zero_emulator.layout import Array
from zero_emulator.strategies.base import Strategy


class _Reducing(NamedTuple):
    """A reduce-scatter in flight, of ``full`` into ``block``, which is the shard or is added to it."""

    work: Work
    full: Array
    block: Array
    params: LayerParams
    first: bool


class Zero2(Strategy):
    """Reduce-scatter each layer's gradient of each micro-batch into shards, update, gather the weights.

    The reduction of one layer runs while the next one computes: two full gradients are alive at most.
    A rank sends f(N) (M + 1) Ψ with M micro-batches. Source: S. Rajbhandari et al., ZeRO, SC 2020.
    """

    name = "zero2"
    stage = 2

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reducing: _Reducing | None = None

    def after_backward(self, layer: int, micro_batch: int) -> None:
        self.close(layer)
        self.settle()
        params, sharers = self.layers[layer], self.groups[layer].sharers
        first = micro_batch == 0
        # Rounded to what a gradient is kept in before it is reduced, as where the full one is kept.
        kept_as = params.summed_grad.dtype.name
        full = self.recast(self.recast(self.take_gradient(), kept_as), self.precision.reduce)
        lands_in_place = first and full.dtype == params.summed_grad.dtype
        shard = params.summed_grad
        block = shard if lands_in_place else self.buffers.take("buffer", shard.size, self.precision.reduce)
        work = sharers.reduce_scatter(full, block, **self.how("reduce_scatter", layer))
        self.reducing = _Reducing(work, full, block, params, first)

    def settle(self) -> None:
        """Finish the reduction in flight, and give back what it used."""
        if self.reducing is None:
            return
        work, full, block, params, first = self.reducing
        self.reducing = None
        work.wait()
        self.buffers.give_back(full)
        add_into(params.summed_grad, block, replace=first)
        params.narrow_grad()
        if block is not params.summed_grad:
            self.buffers.give_back(block)

    def finish_iteration(self, iteration: int) -> None:
        self.settle()
        self.update(iteration)
        self.gather_updated_weights()
