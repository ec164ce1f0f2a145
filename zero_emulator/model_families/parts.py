"""What families share: linear maps, norms, and a decoder around its blocks."""

from collections.abc import Sequence

from zero_emulator.shapes import Model, ModelLayer, Tensor

Tensors = tuple[Tensor, ...]


def linear(name: str, inputs: int, outputs: int, *, bias: bool = False) -> Tensors:
    """A weight, and its bias if there is one."""
    weight = Tensor(f"{name}.weight", (outputs, inputs))
    return (weight, Tensor(f"{name}.bias", (outputs,))) if bias else (weight,)


def norm(name: str, width: int, *, bias: bool = False) -> Tensors:
    """A scale, and its shift if there is one."""
    scale = Tensor(f"{name}.weight", (width,))
    return (scale, Tensor(f"{name}.bias", (width,))) if bias else (scale,)


def embedding(name: str, rows: int, width: int) -> Tensors:
    """A row for each token or place."""
    return (Tensor(f"{name}.weight", (rows, width)),)


def experts(name: str, number: int, inputs: int, outputs: int) -> Tensors:
    """A weight an expert, without bias."""
    return (Tensor(f"{name}.weight", (outputs, inputs), stack=number, expert=True),)


def gated_mlp(width: int, inner: int, *, name: str = "mlp", bias: bool = False) -> Tensors:
    """Gate and up, multiplied, then down."""
    return (
        *linear(f"{name}.gate_proj", width, inner, bias=bias),
        *linear(f"{name}.up_proj", width, inner, bias=bias),
        *linear(f"{name}.down_proj", inner, width, bias=bias),
    )


def expert_mlps(number: int, width: int, inner: int) -> Tensors:
    """The weights of ``number`` gated MLPs to choose among."""
    return (
        *experts("experts.gate_proj", number, width, inner),
        *experts("experts.up_proj", number, width, inner),
        *experts("experts.down_proj", number, inner, width),
    )


def head(vocabulary: int, width: int, *, tied: bool, bias: bool = False) -> Tensors:
    """The weight from the last width to a score a token; a tied one is the embedding once more."""
    bias_of_it = (Tensor("lm_head.bias", (vocabulary,)),) if bias else ()
    return (Tensor("lm_head.weight", (vocabulary, width), tied=tied), *bias_of_it)


def decoder(name: str, first: Tensors, blocks: Sequence[Tensors], last: Tensors) -> Model:
    """Embeddings, blocks that are numbered, and what comes after them."""
    return Model(
        name,
        ModelLayer("embedding", first),
        tuple(ModelLayer(f"block {number}", tensors, is_block=True) for number, tensors in enumerate(blocks)),
        ModelLayer("head", last),
    )
