"""What an optimizer is: rules, each of which updates the flat shard of some tensors in place."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from zero_emulator.layout import Array, Empty, FlatLayout
from zero_emulator.pieces import PIECE


class Rule(Protocol):
    """Updates a flat shard, and has the state for it. Frozen: what changes is passed in."""

    def new_state(self, size: int, dtype: npt.DTypeLike) -> dict[str, Array]:
        """The moments of a shard of ``size`` elements by name, all zero."""

    def update(
        self,
        params: Array,
        grads: Array,
        state: dict[str, Array],
        iteration: int,
        scale: float = 1.0,
        empty: Empty = np.empty,
    ) -> None:
        """Update ``params`` and ``state`` in place with ``scale`` · ``grads``; ``grads`` are only read.

        All are flat and of one size, else ValueError. ``iteration`` counts from 1. ``scale`` clips, or takes
        a loss scale out, on the way. Arithmetic is done in the dtype of ``params``, from gradients of any
        narrower one, too; the temporaries are two pieces, however long the shard, and
        ``empty`` makes them.
        """


class RuleAt(NamedTuple):
    """A rule, and the part of a layer's flat parameters that it updates."""

    place: slice
    rule: Rule


class Optimizer(Protocol):
    """Which rule updates which of a layer's tensors. It counts nothing: the iteration comes from outside."""

    @property
    def lr(self) -> float:
        """The learning rate."""

    def rules(self, layout: FlatLayout) -> Sequence[RuleAt]:
        """The rules of a layer with this layout, from front to back: every element in one of them."""


class Elementwise(ABC):
    """A rule that works element by element, and so is all that an optimizer needs.

    Cut the buffer where you like, the bits stay the same. That is why the optimizer state can be sharded.
    """

    @abstractmethod
    def new_state(self, size: int, dtype: npt.DTypeLike) -> dict[str, Array]: ...

    @abstractmethod
    def update(
        self,
        params: Array,
        grads: Array,
        state: dict[str, Array],
        iteration: int,
        scale: float = 1.0,
        empty: Empty = np.empty,
    ) -> None: ...

    def rules(self, layout: FlatLayout) -> Sequence[RuleAt]:
        """Itself, for all of the layer."""
        return (RuleAt(slice(0, layout.size), self),)


def scratch_like(params: Array, empty: Empty) -> Array:
    """A piece to work in."""
    return empty(min(PIECE, params.size), params.dtype)
