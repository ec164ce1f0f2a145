"""Llama and those that were made after it: RMS norms, grouped keys and values, a gated MLP.

Shapes as in the modelling code of Hugging Face transformers.
"""

from zero_emulator.model_families.fields import Fields
from zero_emulator.model_families.parts import (
    Tensors,
    decoder,
    embedding,
    gated_mlp,
    head,
    linear,
    norm,
)
from zero_emulator.shapes import Model


def head_width(config: Fields) -> int:
    """Numbers of one attention head: given, or the hidden width shared out."""
    if config.given("head_dim"):
        return config.size("head_dim")
    return config.quotient("hidden_size", "num_attention_heads")


def attention(
    config: Fields,
    *,
    kv_heads: int | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    qk_norms: bool = False,
    width_of_a_head: int | None = None,
) -> Tensors:
    """Queries, keys and values, and out again; ``kv_heads`` if the config does not say."""
    width, heads = config.size("hidden_size"), config.size("num_attention_heads")
    each = width_of_a_head or head_width(config)
    keys = config.divisor("num_key_value_heads", kv_heads or heads, of="num_attention_heads") * each
    return (
        *linear("q_proj", width, heads * each, bias=qkv_bias),
        *linear("k_proj", width, keys, bias=qkv_bias),
        *linear("v_proj", width, keys, bias=qkv_bias),
        *linear("o_proj", heads * each, width, bias=out_bias),
        *((*norm("q_norm", each), *norm("k_norm", each)) if qk_norms else ()),
    )


def mlp(config: Fields, *, bias: bool = False) -> Tensors:
    """The gated MLP of the config's width."""
    return gated_mlp(config.size("hidden_size"), config.size("intermediate_size"), bias=bias)


def norms(config: Fields, number: int = 2) -> Tensors:
    """The norms of a block."""
    return tuple(t for place in range(number) for t in norm(f"norm_{place}", config.size("hidden_size")))


def around(config: Fields, blocks: list[Tensors], *, tied: bool) -> Model:
    """Embedding, blocks, last norm and head; ``tied`` if the config does not say."""
    vocabulary, width = config.size("vocab_size"), config.size("hidden_size")
    return decoder(
        config.name,
        embedding("embed_tokens", vocabulary, width),
        blocks,
        (
            *norm("norm", width),
            *head(vocabulary, width, tied=config.flag("tie_word_embeddings", tied)),
        ),
    )


def _alike(config: Fields, block: Tensors, *, tied: bool = False) -> Model:
    return around(config, [block] * config.layers(), tied=tied)


def llama(config: Fields) -> Model:
    """Biases where ``attention_bias`` and ``mlp_bias`` say so."""
    bias = config.flag("attention_bias", False)
    return _alike(
        config,
        (
            *attention(config, qkv_bias=bias, out_bias=bias),
            *mlp(config, bias=config.flag("mlp_bias", False)),
            *norms(config),
        ),
    )


def mistral(config: Fields) -> Model:
    """Llama without biases, with 8 heads of keys and values unless told."""
    return _alike(config, (*attention(config, kv_heads=8), *mlp(config), *norms(config)))


def qwen2(config: Fields) -> Model:
    """Queries, keys and values have biases."""
    return _alike(config, (*attention(config, kv_heads=32, qkv_bias=True), *mlp(config), *norms(config)))


def qwen3_attention(config: Fields, *, kv_heads: int) -> Tensors:
    """A norm on each query and key; heads of 128 unless told."""
    bias = config.flag("attention_bias", False)
    return attention(
        config,
        kv_heads=kv_heads,
        qkv_bias=bias,
        out_bias=bias,
        qk_norms=True,
        width_of_a_head=config.size("head_dim", 128),
    )


def qwen3(config: Fields) -> Model:
    """Norms on queries and keys in place of biases."""
    return _alike(config, (*qwen3_attention(config, kv_heads=32), *mlp(config), *norms(config)))


def gemma(config: Fields) -> Model:
    """Heads of 256 unless told; the head is the embedding."""
    return _gemma(config, kv_heads=16, num_norms=2)


def gemma2(config: Fields) -> Model:
    """Gemma with a norm before and after each half of a block."""
    return _gemma(config, kv_heads=4, num_norms=4)


def _gemma(config: Fields, *, kv_heads: int, num_norms: int) -> Model:
    bias = config.flag("attention_bias", False)
    heads = attention(
        config,
        kv_heads=kv_heads,
        qkv_bias=bias,
        out_bias=bias,
        width_of_a_head=config.size("head_dim", 256),
    )
    return _alike(config, (*heads, *mlp(config), *norms(config, num_norms)), tied=True)


def phi3(config: Fields) -> Model:
    """Llama with the queries, keys and values in one matrix, and gate and up in one."""
    width, heads, each = config.size("hidden_size"), config.size("num_attention_heads"), head_width(config)
    inner = config.size("intermediate_size")
    kv_heads = config.divisor("num_key_value_heads", heads, of="num_attention_heads")
    block = (
        *linear("qkv_proj", width, (heads + 2 * kv_heads) * each),
        *linear("o_proj", heads * each, width),
        *linear("gate_up_proj", width, 2 * inner),
        *linear("down_proj", inner, width),
        *norms(config),
    )
    return _alike(config, block)
