"""What one rank computes with, in parameters, before anything is sharded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from collectives.blocks import bounds, even_cut
from zero_emulator.parallel_degrees import ParallelDegrees
from zero_emulator.shapes import Model, ModelLayer, Tensor


class Group(NamedTuple):
    """Parameters that are kept alike."""

    expert: bool
    matrix: bool
    """Whether Muon updates them: the matrices of the blocks. Embeddings, head, norms and biases it leaves to
    AdamW. Source: K. Jordan, Muon: An optimizer for hidden layers in neural networks, 2024."""


Counts = Mapping[Group, Fraction]


@dataclass(frozen=True)
class Stage:
    """The part of a model on one pipeline stage's rank: parameters by group, and of each layer by group.

    ``layers`` is empty where the model's shapes are not known. Fractions, since a bare number of parameters
    need not divide.
    """

    groups: Counts
    layers: tuple[Counts, ...] = ()

    @property
    def num_params(self) -> Fraction:
        return sum(self.groups.values(), Fraction(0))

    @property
    def largest_layer(self) -> Fraction:
        """Parameters of the layer that has most; the shapes must be known."""
        return max(sum(layer.values(), Fraction(0)) for layer in self.layers)

    def groups_in(self, layers: slice) -> Counts:
        """Parameters of some of the layers by group; ValueError where only their sum over all is known."""
        if layers == slice(None):
            return self.groups
        if not self.layers and layers != slice(0):
            raise ValueError(
                f"which of {float(self.num_params):.0f} parameters are in the last layer is not known: give "
                "--config or --safetensors, or keep no view or all"
            )
        return _summed(self.layers[layers])


def stage_of_count(num_params: int, num_expert_params: int, degrees: ParallelDegrees) -> Stage:
    """1/P of the parameters, split evenly over the tensor ranks, of experts also over the expert ranks.

    All are taken as matrices. ValueError for more expert parameters than parameters.
    """
    if not 0 <= num_expert_params <= num_params:
        raise ValueError(
            f"{num_expert_params} expert parameters of {num_params}: give 0 or more, and no more"
        )
    if degrees.expert > 1 and not num_expert_params:
        raise ValueError(
            f"--expert {degrees.expert}, but which of {num_params} parameters belong to experts is not "
            "known: give --expert-params, --config or --safetensors"
        )
    groups = {Group(False, True): Fraction(num_params - num_expert_params, degrees.model_ranks)}
    if num_expert_params:
        groups[Group(True, True)] = Fraction(num_expert_params, degrees.least_ranks)
    return Stage(groups)


def stages_of(model: Model, degrees: ParallelDegrees) -> tuple[Stage, ...]:
    """The blocks cut over the pipeline as evenly as they go, embeddings in front of the first, the head last.

    A head that is tied to the embedding exists twice where first and last stage are two. Tensor ranks split
    matrices and copy the rest; expert ranks have some experts each. ValueError where that does not divide.
    """
    if degrees.pipeline > max(1, len(model.blocks)):
        raise ValueError(
            f"--pipeline {degrees.pipeline} for {len(model.blocks)} blocks of {model.name}: take fewer stages"
        )
    if degrees.expert > 1 and not model.num_expert_params:
        raise ValueError(f"--expert {degrees.expert}, but {model.name} has no experts: take 1")
    places = bounds(even_cut(len(model.blocks), degrees.pipeline))
    return tuple(
        _stage(
            (
                *([model.first] if number == 0 else []),
                *model.blocks[place],
                *([model.last] if number == degrees.pipeline - 1 else []),
            ),
            degrees,
        )
        for number, place in enumerate(places)
    )


def _stage(layers: tuple[ModelLayer, ...], degrees: ParallelDegrees) -> Stage:
    counts = tuple(_layer_counts(layer, degrees) for layer in layers if layer.tensors)
    return Stage(_summed(counts), counts)


def _summed(layers: Sequence[Counts]) -> Counts:
    """The parameters of all these layers by group."""
    groups: dict[Group, Fraction] = {}
    for layer in layers:
        for group, count in layer.items():
            groups[group] = groups.get(group, Fraction(0)) + count
    return groups


def _layer_counts(layer: ModelLayer, degrees: ParallelDegrees) -> Counts:
    counts: dict[Group, Fraction] = {}
    for tensor in layer.tensors:
        if tensor.tied and degrees.pipeline == 1:
            continue
        group = Group(tensor.expert, layer.is_block and tensor.is_matrix)
        counts[group] = counts.get(group, Fraction(0)) + _on_a_rank(layer, tensor, degrees)
    return counts


def _on_a_rank(layer: ModelLayer, tensor: Tensor, degrees: ParallelDegrees) -> int:
    size = tensor.size
    if tensor.expert:
        if tensor.stack % degrees.expert:
            raise ValueError(
                f"{layer.name}.{tensor.name}: {tensor.stack} experts do not divide by "
                f"--expert {degrees.expert}"
            )
        size //= degrees.expert
    if not tensor.is_matrix:
        return size
    if all(side % degrees.tensor for side in tensor.shape):
        raise ValueError(
            f"{layer.name}.{tensor.name}: neither side of {tensor.shape} divides by "
            f"--tensor-parallel {degrees.tensor}"
        )
    return size // degrees.tensor
