"""Llamas whose MLP is a choice among experts.

Shapes as in the modelling code of Hugging Face transformers.
"""

from zero_emulator.model_families.fields import Fields
from zero_emulator.model_families.gated import around, attention, mlp, norms, qwen3_attention
from zero_emulator.model_families.parts import Tensors, expert_mlps, gated_mlp, linear
from zero_emulator.shapes import Model


def mixtral(config: Fields) -> Model:
    """Every block has experts, 8 unless told."""
    width, number = config.size("hidden_size"), config.size("num_local_experts", 8)
    block = (
        *attention(config, kv_heads=8),
        *linear("router", width, number),
        *expert_mlps(number, width, config.size("intermediate_size")),
        *norms(config),
    )
    return around(config, [block] * config.layers(), tied=False)


def qwen2_moe(config: Fields) -> Model:
    """Beside the experts one that all tokens go through, with a gate of its own."""
    width, bias = config.size("hidden_size"), config.flag("qkv_bias", True)
    shared = (
        *gated_mlp(width, config.size("shared_expert_intermediate_size"), name="shared_expert"),
        *linear("shared_expert_gate", width, 1),
    )
    return _qwen(config, attention(config, kv_heads=16, qkv_bias=bias), shared, num_experts=60)


def qwen3_moe(config: Fields) -> Model:
    """Qwen3's attention, and experts alone."""
    return _qwen(config, qwen3_attention(config, kv_heads=4), (), num_experts=128)


def _qwen(config: Fields, heads: Tensors, shared: Tensors, *, num_experts: int) -> Model:
    """Some blocks keep a dense MLP: those listed, and those that the sparse step leaves out."""
    width, number = config.size("hidden_size"), config.size("num_experts", num_experts, least=0)
    dense = config.numbers("mlp_only_layers")
    step = config.size("decoder_sparse_step", 1)
    plain: Tensors = ()
    chosen: Tensors = ()
    blocks = []
    for layer in range(config.layers()):
        if layer not in dense and number and (layer + 1) % step == 0:
            chosen = chosen or (
                *linear("router", width, number),
                *expert_mlps(number, width, config.size("moe_intermediate_size")),
                *shared,
            )
            blocks.append((*heads, *chosen, *norms(config)))
        else:
            plain = plain or mlp(config)
            blocks.append((*heads, *plain, *norms(config)))
    return around(config, blocks, tied=False)
