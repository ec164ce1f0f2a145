"""Training in one process on the whole batch: the reference that everything distributed is held against.

It knows nothing of ranks, shards or strategies, and must stay too plain to be wrong.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from collectives.blocks import bounds, even_cut
from zero_emulator.clipping import clip_scale, square_sum
from zero_emulator.layer import Layer
from zero_emulator.layout import Array
from zero_emulator.losses import AddedLoss, LossFunction
from zero_emulator.optimizers import Optimizer


def train_serially(
    layers: Sequence[Layer],
    parameters: Sequence[Array],
    optimizer: Optimizer,
    loss_function: LossFunction,
    batches: Iterable[tuple[Array, Array]],
    *,
    micro_batches: int = 1,
    max_norm: float | None = None,
    near: AddedLoss | None = None,
) -> list[float]:
    """The loss of every iteration, each taken before its update; ``parameters`` are updated in place.

    ``parameters`` holds one flat array a layer; a batch is (x, y) with all samples of one iteration, cut
    into ``micro_batches`` near-equal parts. ``max_norm`` clips by the norm over all layers.
    ``near`` is added to the loss.
    """
    updates = [
        (index, place, rule, rule.new_state(place.stop - place.start, parameters[index].dtype))
        for index, layer in enumerate(layers)
        for place, rule in optimizer.rules(layer.layout)
    ]
    losses = []
    for iteration, (x, y) in enumerate(batches, start=1):
        loss, gradients = batch_gradients(layers, parameters, loss_function, x, y, micro_batches, near)
        if max_norm is not None:
            scale = clip_scale(sum(map(square_sum, gradients)), max_norm)
            for gradient in gradients:
                gradient *= scale
        for index, place, rule, state in updates:
            rule.update(parameters[index][place], gradients[index][place], state, iteration)
        losses.append(loss)
    return losses


def batch_gradients(
    layers: Sequence[Layer],
    parameters: Sequence[Array],
    loss_function: LossFunction,
    x: Array,
    y: Array,
    micro_batches: int,
    near: AddedLoss | None = None,
) -> tuple[float, list[Array]]:
    """The mean loss over a batch and its gradient, one flat array a layer, added up over micro-batches."""
    loss = 0.0
    gradients = [np.zeros_like(params) for params in parameters]
    for part in bounds(even_cut(len(x), micro_batches)):
        part_loss, part_gradients = loss_and_gradients(
            layers, parameters, loss_function, x[part], y[part], len(x), near
        )
        loss += part_loss
        for total, gradient in zip(gradients, part_gradients, strict=True):
            total += gradient
    return loss, gradients


def loss_and_gradients(
    layers: Sequence[Layer],
    parameters: Sequence[Array],
    loss_function: LossFunction,
    x: Array,
    y: Array,
    global_count: int,
    near: AddedLoss | None = None,
) -> tuple[float, list[Array]]:
    """These samples' share of the mean loss over ``global_count`` samples, and its gradient.

    Losses that layers have of their own are in it. The gradient is one flat array a layer. Nothing that is
    passed in is written to.
    """
    saved, outputs = [], x
    for layer, params in zip(layers, parameters, strict=True):
        outputs, kept = layer.forward(params, outputs, global_count=global_count)
        saved.append(kept)
    loss, grad = loss_function(outputs, y, global_count)
    if near is not None:
        added, grad_added = near(x, outputs, global_count)
        loss, grad = loss + added, grad + grad_added
    loss += sum(kept.loss for kept in saved)
    gradients = [np.empty_like(params) for params in parameters]
    for index in reversed(range(len(layers))):
        grad_x = layers[index].backward(parameters[index], saved[index], grad, gradients[index])
        assert grad_x is not None, "asked for by default"
        grad = grad_x
    return loss, gradients
