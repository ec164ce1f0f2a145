"""The one training loop: every rank runs it on its own rows; the strategy decides what is where."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from collectives.ledger import Label
from zero_emulator.batches import rank_rows
from zero_emulator.layer import Kept, Layer
from zero_emulator.layout import Array
from zero_emulator.losses import LossFunction
from zero_emulator.meter import Moment
from zero_emulator.strategies import Strategy

ViewObserver = Callable[[int, int, Array], None]
"""Called with (iteration, layer, view) for every view that a forward or a backward really used."""


class Trainer:
    """Trains the layers with one strategy; ``on_view`` watches what they use."""

    def __init__(
        self,
        layers: Sequence[Layer],
        loss_function: LossFunction,
        strategy: Strategy,
        on_view: ViewObserver = lambda iteration, layer, view: None,
    ) -> None:
        self.layers, self.loss_function, self.strategy, self.on_view = (
            layers,
            loss_function,
            strategy,
            on_view,
        )
        self.comm = strategy.comm
        self._empty = partial(strategy.meter.empty, "activation")
        self.iteration = 0

    def iterate(self, x: Array, y: Array) -> float:
        """One iteration on a global batch; this rank's share of its mean loss, taken before the update.

        The shares of all ranks add up to the loss, and their gradients to its gradient: every row is divided
        by the size of the global batch, however the rows are spread. A rank without rows takes part as well.
        """
        self.iteration += 1
        with np.errstate(over="ignore", invalid="ignore"):  # a run that diverges says so once, in its verdict
            return self._iterate(x, y)

    def _iterate(self, x: Array, y: Array) -> float:
        loss = 0.0
        micro_batches = self.strategy.options.micro_batches
        parts = rank_rows(len(x), micro_batches, self.comm.world_size, self.comm.rank)
        for micro_batch, rows in enumerate(parts):
            loss += self._micro_batch(micro_batch, x[rows], y[rows], len(x))
        self._label("update", None)
        self.strategy.finish_iteration(self.iteration)
        self.strategy.advance()
        return loss

    def _micro_batch(self, micro_batch: int, x: Array, y: Array, batch_size: int) -> float:
        """Forward and backward of this rank's rows; their share of the loss."""
        self._label("forward", 0)
        x, y = self._load(x), self._load(y)
        outputs, saved = self._forward(x, micro_batch, batch_size)
        grad: Array | None
        share, grad = self._loss(outputs, y, batch_size)
        share += sum(kept.loss for kept in saved)
        del outputs  # or it would outlive its own backward
        for index in reversed(range(len(self.layers))):
            self._label("backward", index)
            self.strategy.before_backward(index, micro_batch)
            assert grad is not None, "only below the first layer is there none"
            grad = self._backward(index, micro_batch, saved.pop(), grad)
            self.strategy.after_backward(index, micro_batch)
        return share

    def _load(self, rows: Array) -> Array:
        """A copy where the model is: the data set stays with the host."""
        loaded = self.strategy.meter.empty("input", rows.shape, rows.dtype)
        loaded[...] = rows
        return loaded

    def _forward(self, x: Array, micro_batch: int, batch_size: int) -> tuple[Array, list[Kept]]:
        saved = []
        for index, layer in enumerate(self.layers):
            self._label("forward", index)
            self.strategy.before_forward(index, micro_batch)
            self.on_view(self.iteration, index, self.strategy.view(index))
            x, kept = layer.forward(self.strategy.view(index), x, self._empty, global_count=batch_size)
            saved.append(kept)
            self.strategy.after_forward(index, micro_batch)
        return x, saved

    def _loss(self, outputs: Array, y: Array, batch_size: int) -> tuple[float, Array]:
        share, grad = self.loss_function(outputs, y, batch_size)
        if self.strategy.loss_scale is not None:
            grad *= self._loss_scale
        return share, self.strategy.meter.track("activation", grad)

    def _backward(self, index: int, micro_batch: int, saved: Kept, grad: Array) -> Array | None:
        self.on_view(self.iteration, index, self.strategy.view(index))
        return self.layers[index].backward(
            self.strategy.view(index),
            saved,
            grad,
            self.strategy.gradient(index, micro_batch),
            self._empty,
            needs_grad_x=index > 0,
            loss_scale=self._loss_scale,
        )

    @property
    def _loss_scale(self) -> float:
        return 1.0 if self.strategy.loss_scale is None else self.strategy.loss_scale.value

    def _label(self, phase: str, layer: int | None) -> None:
        self.comm.label = Label("training", self.iteration, phase, layer)
        self.strategy.meter.at = Moment(self.iteration, phase, layer)
