"""A model as its tensors: what is counted when nobody can run it."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class Tensor:
    """A parameter tensor by shape; ``stack`` of them where equal experts would repeat it."""

    name: str
    shape: tuple[int, ...]
    stack: int = 1
    expert: bool = False
    """Whether a router chooses among the stack: an expert-parallel rank has some of it."""
    tied: bool = False
    """Whether it is another tensor once more, which only a pipeline makes two."""

    @property
    def size(self) -> int:
        """Elements, of the whole stack."""
        return prod(self.shape) * self.stack

    @property
    def is_matrix(self) -> bool:
        return len(self.shape) == 2


@dataclass(frozen=True)
class ModelLayer:
    """Tensors that are gathered together, because they are used together."""

    name: str
    tensors: tuple[Tensor, ...]
    is_block: bool = False
    """Whether it is one of the numbered blocks, and not what stands before or after them."""


@dataclass(frozen=True)
class Model:
    """Layers in order: ``first`` (embeddings), the blocks, and ``last`` (final norm and head)."""

    name: str
    first: ModelLayer
    blocks: tuple[ModelLayer, ...]
    last: ModelLayer

    @property
    def layers(self) -> tuple[ModelLayer, ...]:
        """All that have parameters."""
        return tuple(layer for layer in (self.first, *self.blocks, self.last) if layer.tensors)

    @property
    def num_params(self) -> int:
        """Ψ: tied tensors count once."""
        return self._count(tensor for layer in self.layers for tensor in layer.tensors)

    @property
    def num_expert_params(self) -> int:
        """Those of Ψ that belong to experts."""
        return self._count(tensor for layer in self.layers for tensor in layer.tensors if tensor.expert)

    @staticmethod
    def _count(tensors: Iterable[Tensor]) -> int:
        return sum(tensor.size for tensor in tensors if not tensor.tied)
