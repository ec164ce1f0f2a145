"""The one training loop: every rank walks its order of work; the strategy decides what is where."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from collectives.ledger import Label
from zero_emulator.batches import rank_rows
from zero_emulator.experts import RouterSaved, Routing
from zero_emulator.layer import Kept, Layer
from zero_emulator.layout import Array
from zero_emulator.losses import AddedLoss, LossFunction
from zero_emulator.meter import Moment
from zero_emulator.neighbours import Neighbours
from zero_emulator.pipeline import Action, Backward, Forward, Receive, Send
from zero_emulator.strategies import Strategy

ViewObserver = Callable[[int, int, Array], None]
"""Called with (iteration, layer, view) for every view that a forward or a backward really used."""


class _Batch(NamedTuple):
    """An iteration's global batch, and this rank's rows of each micro-batch."""

    x: Array
    y: Array
    rows: list[slice]


class _Pass(NamedTuple):
    """What a chunk's backward needs of its forward, and the rows and targets, which are held as long."""

    loaded: list[Array]
    saved: list[Kept]


class Trainer:
    """Trains a rank's layers with one strategy; ``on_view`` watches what they use.

    ``neighbours`` brings activations to the other stages of a pipeline; None where there is one stage.
    ``near`` is added to the loss.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        loss_function: LossFunction,
        strategy: Strategy,
        on_view: ViewObserver = lambda iteration, layer, view: None,
        neighbours: Neighbours | None = None,
        near: AddedLoss | None = None,
    ) -> None:
        self.layers, self.loss_function, self.near = layers, loss_function, near
        self.strategy, self.on_view, self.neighbours = strategy, on_view, neighbours
        self.comm, self.share = strategy.comm, strategy.share
        self._empty = partial(strategy.meter.empty, "activation")
        self.iteration = 0
        self.routings: dict[tuple[int, int], Routing] = {}  # of this iteration, by router and micro-batch
        self._passes: dict[tuple[int, int], _Pass] = {}  # of chunks that are between forward and backward
        # Activations and gradients, made here or received, by the chunk and the micro-batch they are for.
        self._ready: dict[tuple[str, int, int], Array] = {}

    def iterate(self, x: Array, y: Array) -> float:
        """One iteration on a global batch; this rank's share of its mean loss, taken before the update.

        The shares of all ranks add up to the loss, and their gradients to its gradient: every row is divided
        by the size of the global batch, however the rows are spread. A rank without rows takes part as well.
        """
        self.iteration += 1
        self.routings = {}
        with np.errstate(over="ignore", invalid="ignore"):  # a run that diverges says so once, in its verdict
            return self._iterate(x, y)

    def _iterate(self, x: Array, y: Array) -> float:
        share, micro_batches = self.share, self.strategy.options.micro_batches
        batch = _Batch(x, y, [*rank_rows(len(x), micro_batches, share.stage_size, share.stage_position)])
        loss = sum(self._do(action, batch) for action in share.order)
        if self.neighbours is not None:
            self.neighbours.finish()
        self._label("update", None)
        self.strategy.finish_iteration(self.iteration)
        self.strategy.advance()
        return loss

    def _do(self, action: Action, batch: _Batch) -> float:
        """Make one step of the order of work; what it adds to the loss."""
        if isinstance(action, Forward):
            return self._forward(action, batch)
        if isinstance(action, Backward):
            self._backward(action)
        elif isinstance(action, Receive):
            self._receive(action, batch)
        else:
            self._send(action)
        return 0.0

    def _forward(self, action: Forward, batch: _Batch) -> float:
        """A chunk's forward; of the last chunk the loss, too."""
        chunk, micro_batch = action
        layers, rows = self.share.chunks[chunk], batch.rows[micro_batch]
        is_first, is_last = chunk == 0, chunk == self.share.num_chunks - 1
        self._label("forward", layers[0])
        loaded = [self._load(batch.x[rows])] if is_first else []
        x = loaded[0] if is_first else self._ready.pop(("activation", chunk, micro_batch))
        if is_last:
            loaded.append(self._load(batch.y[rows]))
        saved: list[Kept] = []
        for layer in layers:
            self._label("forward", layer)
            self.strategy.before_forward(layer, micro_batch)
            self._show_view(layer)
            x, kept = self.layers[layer].forward(
                self.strategy.view(layer), x, self._empty, global_count=len(batch.x)
            )
            saved.append(kept)
            if isinstance(kept, RouterSaved):
                self.routings[self.share.held[layer].layer, micro_batch] = kept.routing
            self.strategy.after_forward(layer, micro_batch)
        self._passes[chunk, micro_batch] = _Pass(loaded, saved)
        own_losses = sum(kept.loss for kept in saved)
        if not is_last:
            self._ready["activation", chunk + 1, micro_batch] = x
            return own_losses
        added = None
        if self.near is not None:
            inputs = loaded[0] if is_first else self._load(batch.x[rows])
            added = self.near(inputs, x, len(batch.x))
        loss, self._ready["gradient", chunk, micro_batch] = self._loss(x, loaded[-1], len(batch.x), added)
        return loss + own_losses

    def _backward(self, action: Backward) -> None:
        """A chunk's backward; what comes out is ready for the chunk before it."""
        chunk, micro_batch = action
        grad: Array | None = self._ready.pop(("gradient", chunk, micro_batch))
        passed = self._passes.pop((chunk, micro_batch))
        for layer in reversed(self.share.chunks[chunk]):
            self._label("backward", layer)
            self.strategy.before_backward(layer, micro_batch)
            assert grad is not None, "only below the first layer is there none"
            grad = self._backward_layer(layer, micro_batch, passed.saved.pop(), grad)
            self.strategy.after_backward(layer, micro_batch)
        if grad is not None:
            self._ready["gradient", chunk - 1, micro_batch] = grad

    def _backward_layer(self, layer: int, micro_batch: int, saved: Kept, grad: Array) -> Array | None:
        self._show_view(layer)
        return self.layers[layer].backward(
            self.strategy.view(layer),
            saved,
            grad,
            self.strategy.gradient(layer, micro_batch),
            self._empty,
            needs_grad_x=self.share.held[layer].layer > 0,
            loss_scale=self._loss_scale,
        )

    def _loss(
        self, outputs: Array, y: Array, batch_size: int, added: tuple[float, Array] | None
    ) -> tuple[float, Array]:
        """The loss and its gradient, with what is ``added`` to both."""
        share, grad = self.loss_function(outputs, y, batch_size)
        if added is not None:
            share += added[0]
            grad += added[1]
        if self.strategy.loss_scale is not None:
            grad *= self._loss_scale
        return share, self.strategy.meter.track("activation", grad)

    @property
    def _loss_scale(self) -> float:
        return 1.0 if self.strategy.loss_scale is None else self.strategy.loss_scale.value

    def _receive(self, action: Receive, batch: _Batch) -> None:
        """Have from another stage what the next step of the order needs."""
        assert self.neighbours is not None, "who receives has neighbours"
        self._label_message(action)
        layers, rows = self.share.chunks[action.chunk], batch.rows[action.micro_batch]
        if action.what == "activation":
            width = self.layers[layers[0]].inputs
        else:
            width = self.layers[layers[-1]].outputs
        array = self._empty((rows.stop - rows.start, width), batch.x.dtype)
        self.neighbours.receive(action, self.iteration, array)
        self._ready[action.what, action.chunk, action.micro_batch] = array

    def _send(self, action: Send) -> None:
        """Give another stage what the last step of the order has made for it."""
        assert self.neighbours is not None, "who sends has neighbours"
        self._label_message(action)
        array = self._ready.pop((action.what, action.chunk, action.micro_batch))
        self.neighbours.send(action, self.iteration, array)

    def _load(self, rows: Array) -> Array:
        """A copy where the model is: the data set stays with the host."""
        loaded = self.strategy.meter.empty("input", rows.shape, rows.dtype)
        loaded[...] = rows
        return loaded

    def _show_view(self, layer: int) -> None:
        self.on_view(self.iteration, self.share.held[layer].layer, self.strategy.view(layer))

    def _label(self, phase: str, layer: int | None) -> None:
        """Say what the rank is doing: in which phase, on which of its layers."""
        number = None if layer is None else self.share.held[layer].layer
        self.comm.label = Label("training", self.iteration, phase, number)
        for meter in self.strategy.meters:
            meter.at = Moment(self.iteration, phase, number)

    def _label_message(self, message: Send | Receive) -> None:
        self._label("forward" if message.what == "activation" else "backward", None)
