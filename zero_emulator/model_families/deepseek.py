"""DeepSeek V2 and V3: attention through narrow latents, fine experts beside shared ones.

Shapes as in the modelling code of Hugging Face transformers. What V3 predicts further tokens with is not part
of that model, and the routing bias is set by a rule, not trained: neither is counted.
"""

from zero_emulator.model_families.fields import Fields
from zero_emulator.model_families.gated import around, mlp, norms
from zero_emulator.model_families.parts import Tensors, expert_mlps, gated_mlp, linear, norm
from zero_emulator.shapes import Model


def _latent_attention(config: Fields) -> Tensors:
    """Queries (if ``q_lora_rank`` is given) and keys with values go through a latent each."""
    width, heads = config.size("hidden_size"), config.size("num_attention_heads")
    turned, plain = config.size("qk_rope_head_dim"), config.size("qk_nope_head_dim")
    value, latent = config.size("v_head_dim"), config.size("kv_lora_rank")
    queries = linear("q_proj", width, heads * (plain + turned))
    if config.given("q_lora_rank"):
        rank = config.size("q_lora_rank")
        queries = (
            *linear("q_a_proj", width, rank),
            *norm("q_a_norm", rank),
            *linear("q_b_proj", rank, heads * (plain + turned)),
        )
    return (
        *queries,
        *linear("kv_a_proj", width, latent + turned),
        *norm("kv_a_norm", latent),
        *linear("kv_b_proj", latent, heads * (plain + value)),
        *linear("o_proj", heads * value, width),
    )


def deepseek(config: Fields) -> Model:
    """Experts in every block but the first few. V3 differs from V2 in its numbers only."""
    config.refuse("moe_layer_freq", 1, default=1)
    config.refuse("attention_bias", False, default=False)
    width, number = config.size("hidden_size"), config.size("n_routed_experts")
    inner = config.size("moe_intermediate_size")
    shared = config.size("n_shared_experts", 0, least=0) * inner
    heads = _latent_attention(config)
    chosen = (
        *linear("router", width, number),
        *expert_mlps(number, width, inner),
        *(gated_mlp(width, shared, name="shared_experts") if shared else ()),
    )
    dense = config.size("first_k_dense_replace", least=0)
    blocks = [
        (*heads, *(mlp(config) if layer < dense else chosen), *norms(config))
        for layer in range(config.layers())
    ]
    return around(config, blocks, tied=False)
