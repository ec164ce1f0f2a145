"""GPT-2 and those that were made after it: norms with a shift, an MLP without a gate, biases.

Shapes as in the modelling code of Hugging Face transformers.
"""

from zero_emulator.model_families.fields import Fields
from zero_emulator.model_families.gated import attention
from zero_emulator.model_families.parts import Tensors, decoder, embedding, head, linear, norm
from zero_emulator.shapes import Model


def gpt2(config: Fields) -> Model:
    """Learned places; queries, keys and values in one matrix; the head is the embedding."""
    config.refuse("add_cross_attention", False, default=False)
    width, vocabulary = config.size("n_embd"), config.size("vocab_size")
    block = (
        *norm("ln_1", width, bias=True),
        *linear("c_attn", width, 3 * width, bias=True),
        *linear("attn.c_proj", width, width, bias=True),
        *norm("ln_2", width, bias=True),
        *_two_maps("c_fc", "mlp.c_proj", width, config.size("n_inner", 4 * width), bias=True),
    )
    return decoder(
        config.name,
        (*embedding("wte", vocabulary, width), *embedding("wpe", config.size("n_positions"), width)),
        [block] * config.layers("n_layer"),
        (
            *norm("ln_f", width, bias=True),
            *head(vocabulary, width, tied=config.flag("tie_word_embeddings", True)),
        ),
    )


def gpt_neox(config: Fields) -> Model:
    """Places are turned into the queries and keys, not learned; the head has weights of its own."""
    width, vocabulary = config.size("hidden_size"), config.size("vocab_size")
    bias = config.flag("attention_bias", True)
    block = (
        *norm("input_layernorm", width, bias=True),
        *norm("post_attention_layernorm", width, bias=True),
        *linear("query_key_value", width, 3 * width, bias=bias),
        *linear("dense", width, width, bias=bias),
        *_two_maps("dense_h_to_4h", "dense_4h_to_h", width, config.size("intermediate_size"), bias=True),
    )
    return decoder(
        config.name,
        embedding("embed_in", vocabulary, width),
        [block] * config.layers(),
        (
            *norm("final_layer_norm", width, bias=True),
            *head(vocabulary, width, tied=config.flag("tie_word_embeddings", False)),
        ),
    )


def phi(config: Fields) -> Model:
    """One norm a block, and a bias on the head, too."""
    config.refuse("qk_layernorm", False, default=False)
    width, vocabulary = config.size("hidden_size"), config.size("vocab_size")
    block = (
        *norm("input_layernorm", width, bias=True),
        *attention(config, qkv_bias=True, out_bias=True),
        *_two_maps("fc1", "fc2", width, config.size("intermediate_size"), bias=True),
    )
    tied = config.flag("tie_word_embeddings", False)
    return decoder(
        config.name,
        embedding("embed_tokens", vocabulary, width),
        [block] * config.layers(),
        (*norm("final_layernorm", width, bias=True), *head(vocabulary, width, tied=tied, bias=True)),
    )


def opt(config: Fields) -> Model:
    """Learned places, two more than the text is long; small ones embed narrower than they think."""
    config.refuse("enable_bias", True, default=True)
    config.refuse("layer_norm_elementwise_affine", True, default=True)
    width, vocabulary = config.size("hidden_size"), config.size("vocab_size")
    narrow = config.size("word_embed_proj_dim", width)
    narrower = narrow != width
    block = (
        *attention(config, kv_heads=config.size("num_attention_heads"), qkv_bias=True, out_bias=True),
        *norm("self_attn_layer_norm", width, bias=True),
        *_two_maps("fc1", "fc2", width, config.size("ffn_dim"), bias=True),
        *norm("final_layer_norm", width, bias=True),
    )
    norm_last = config.flag("do_layer_norm_before", True) and not config.flag(
        "_remove_final_layer_norm", False
    )
    return decoder(
        config.name,
        (
            *embedding("embed_tokens", vocabulary, narrow),
            *embedding("embed_positions", config.size("max_position_embeddings") + 2, width),
            *(linear("project_in", narrow, width) if narrower else ()),
        ),
        [block] * config.layers(),
        (
            *(norm("final_layer_norm", width, bias=True) if norm_last else ()),
            *(linear("project_out", width, narrow) if narrower else ()),
            *head(vocabulary, narrow, tied=config.flag("tie_word_embeddings", True)),
        ),
    )


def falcon(config: Fields) -> Model:
    """One head of keys and values for all queries, or several (the "new decoder architecture")."""
    width, vocabulary = config.size("hidden_size"), config.size("vocab_size")
    heads, each = config.size("num_attention_heads"), config.quotient("hidden_size", "num_attention_heads")
    new, bias = config.flag("new_decoder_architecture", False), config.flag("bias", False)
    if new:
        kv_heads = config.divisor("num_kv_heads", heads, of="num_attention_heads")
        num_norms = config.size("num_ln_in_parallel_attn", 2, most=2)
    else:
        kv_heads = 1 if config.flag("multi_query", True) else heads
        num_norms = 1 if config.flag("parallel_attn", True) else 2
    block = (
        *(tensor for place in range(num_norms) for tensor in norm(f"norm_{place}", width, bias=True)),
        *linear("query_key_value", width, (heads + 2 * kv_heads) * each, bias=bias),
        *linear("dense", heads * each, width, bias=bias),
        *_two_maps(
            "dense_h_to_4h", "dense_4h_to_h", width, config.size("ffn_hidden_size", 4 * width), bias=bias
        ),
    )
    return decoder(
        config.name,
        embedding("word_embeddings", vocabulary, width),
        [block] * config.layers(),
        (
            *norm("ln_f", width, bias=True),
            *head(vocabulary, width, tied=config.flag("tie_word_embeddings", True)),
        ),
    )


def _two_maps(up: str, down: str, width: int, inner: int, *, bias: bool) -> Tensors:
    return *linear(up, width, inner, bias=bias), *linear(down, inner, width, bias=bias)
