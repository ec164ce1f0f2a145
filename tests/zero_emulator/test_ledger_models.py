"""Public models, counted from their configs: the published numbers of parameters, to the last one."""

import json
from pathlib import Path
from typing import Any

import pytest

from zero_emulator.model_configs import model_of_config, read_config
from zero_emulator.model_families import FAMILIES
from zero_emulator.model_families.fields import Fields

Config = dict[str, Any]


def llama_like(
    model_type: str,
    hidden: int,
    inner: int,
    layers: int,
    heads: int,
    kv_heads: int,
    vocabulary: int,
    **more: Any,
) -> Config:
    return {
        "model_type": model_type, "hidden_size": hidden, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "vocab_size": vocabulary, **more,
    }  # fmt: skip


def opt(hidden: int, layers: int, heads: int, **more: Any) -> Config:
    return {
        "model_type": "opt", "hidden_size": hidden, "ffn_dim": 4 * hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "vocab_size": 50272, "max_position_embeddings": 2048, **more,
    }  # fmt: skip


def gpt2(width: int, layers: int) -> Config:
    return {
        "model_type": "gpt2",
        "n_embd": width,
        "n_layer": layers,
        "n_positions": 1024,
        "vocab_size": 50257,
    }


LATENT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}

PUBLISHED: dict[str, tuple[Config, int]] = {
    "Llama-2-7B": (llama_like("llama", 4096, 11008, 32, 32, 32, 32000), 6_738_415_616),
    "Llama-2-13B": (llama_like("llama", 5120, 13824, 40, 40, 40, 32000), 13_015_864_320),
    "Llama-2-70B": (llama_like("llama", 8192, 28672, 80, 64, 8, 32000), 68_976_648_192),
    "Llama-3-8B": (llama_like("llama", 4096, 14336, 32, 32, 8, 128256), 8_030_261_248),
    "Llama-3.1-405B": (llama_like("llama", 16384, 53248, 126, 128, 8, 128256), 405_853_388_800),
    "Llama-3.2-1B": (
        llama_like("llama", 2048, 8192, 16, 32, 8, 128256, head_dim=64, tie_word_embeddings=True),
        1_235_814_400,
    ),
    "Mistral-7B": (llama_like("mistral", 4096, 14336, 32, 32, 8, 32000, head_dim=None), 7_241_732_096),
    "Mixtral-8x7B": (
        llama_like("mixtral", 4096, 14336, 32, 32, 8, 32000, num_local_experts=8), 46_702_792_704
    ),
    "Mixtral-8x22B": (
        llama_like("mixtral", 6144, 16384, 56, 48, 8, 32000, num_local_experts=8), 140_620_634_112
    ),
    "Qwen2-0.5B": (
        llama_like("qwen2", 896, 4864, 24, 14, 2, 151936, tie_word_embeddings=True), 494_032_768
    ),
    "Qwen2-7B": (llama_like("qwen2", 3584, 18944, 28, 28, 4, 152064), 7_615_616_512),
    "Qwen3-0.6B": (
        llama_like("qwen3", 1024, 3072, 28, 16, 8, 151936, head_dim=128, tie_word_embeddings=True),
        596_049_920,
    ),
    "Qwen3-8B": (llama_like("qwen3", 4096, 12288, 36, 32, 8, 151936, head_dim=128), 8_190_735_360),
    "Qwen1.5-MoE-A2.7B": (
        llama_like("qwen2_moe", 2048, 5632, 24, 16, 16, 151936, num_experts=60, moe_intermediate_size=1408,
                   shared_expert_intermediate_size=5632),
        14_315_784_192,
    ),
    "Qwen2-57B-A14B": (
        llama_like("qwen2_moe", 3584, 18944, 28, 28, 4, 151936, num_experts=64, moe_intermediate_size=2560,
                   shared_expert_intermediate_size=20480),
        57_408_658_944,
    ),
    "Qwen3-30B-A3B": (
        llama_like("qwen3_moe", 2048, 6144, 48, 32, 4, 151936, head_dim=128, num_experts=128,
                   moe_intermediate_size=768, decoder_sparse_step=1, mlp_only_layers=[]),
        30_532_122_624,
    ),
    "Gemma-2B": (llama_like("gemma", 2048, 16384, 18, 8, 1, 256000, head_dim=256), 2_506_172_416),
    "Gemma-7B": (llama_like("gemma", 3072, 24576, 28, 16, 16, 256000, head_dim=256), 8_537_680_896),
    "Gemma-2-9B": (llama_like("gemma2", 3584, 14336, 42, 16, 8, 256000, head_dim=256), 9_241_705_984),
    "Gemma-2-27B": (llama_like("gemma2", 4608, 36864, 46, 32, 16, 256000, head_dim=128), 27_227_128_320),
    "Phi-3-mini": (llama_like("phi3", 3072, 8192, 32, 32, 32, 32064), 3_821_079_552),
    "Phi-2": (llama_like("phi", 2560, 10240, 32, 32, 32, 51200), 2_779_683_840),
    "DeepSeek-V2-Lite": (
        llama_like("deepseek_v2", 2048, 10944, 27, 16, 16, 102400, **LATENT, q_lora_rank=None,
                   n_routed_experts=64, n_shared_experts=2, moe_intermediate_size=1408,
                   first_k_dense_replace=1, moe_layer_freq=1),
        15_706_484_224,
    ),
    "DeepSeek-V2": (
        llama_like("deepseek_v2", 5120, 12288, 60, 128, 128, 102400, **LATENT, q_lora_rank=1536,
                   n_routed_experts=160, n_shared_experts=2, moe_intermediate_size=1536,
                   first_k_dense_replace=1),
        235_741_434_880,
    ),
    "DeepSeek-V3": (
        llama_like("deepseek_v3", 7168, 18432, 61, 128, 128, 129280, **LATENT, q_lora_rank=1536,
                   n_routed_experts=256, n_shared_experts=1, moe_intermediate_size=2048,
                   first_k_dense_replace=3),
        671_026_419_200 - 58 * 256,  # a routing bias an expert is in the published number, but is not trained
    ),
    "GPT-2": (gpt2(768, 12), 124_439_808),
    "GPT-2-XL": (gpt2(1600, 48), 1_557_611_200),
    "GPT-NeoX-20B": (llama_like("gpt_neox", 6144, 24576, 44, 64, 64, 50432), 20_554_567_680),
    "Pythia-6.9B": (llama_like("gpt_neox", 4096, 16384, 32, 32, 32, 50432), 6_857_302_016),
    "OPT-125M": (opt(768, 12, 12, word_embed_proj_dim=768), 125_239_296),
    "OPT-350M": (opt(1024, 24, 16, word_embed_proj_dim=512, do_layer_norm_before=False), 331_196_416),
    "OPT-6.7B": (opt(4096, 32, 32), 6_658_473_984),
    "Falcon-7B": (
        {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
         "vocab_size": 65024, "multi_query": True, "parallel_attn": True},
        6_921_720_704,
    ),
    "Falcon-40B": (
        {"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
         "num_kv_heads": 8, "vocab_size": 65024, "new_decoder_architecture": True},
        41_303_293_952,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_public_model_has_its_published_number_of_parameters(name: str) -> None:
    config, params = PUBLISHED[name]
    assert model_of_config(config, name).num_params == params


def test_every_family_is_held_against_a_public_model() -> None:
    assert {config["model_type"] for config, _ in PUBLISHED.values()} == set(FAMILIES)


def test_experts_are_told_from_what_every_token_goes_through() -> None:
    config, _ = PUBLISHED["Mixtral-8x7B"]
    assert model_of_config(config, "Mixtral").num_expert_params == 32 * 8 * 3 * 4096 * 14336
    config, _ = PUBLISHED["Qwen1.5-MoE-A2.7B"]
    assert model_of_config(config, "Qwen").num_expert_params == 24 * 60 * 3 * 2048 * 1408


def test_blocks_that_a_moe_keeps_dense_have_no_experts() -> None:
    config = PUBLISHED["Qwen3-30B-A3B"][0] | {
        "num_hidden_layers": 6,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [3],
    }
    blocks = model_of_config(config, "Qwen").blocks
    assert [any(tensor.expert for tensor in block.tensors) for block in blocks] == [
        False, True, False, False, False, True,
    ]  # fmt: skip


def test_biases_are_counted_where_the_config_says_so() -> None:
    config = llama_like("llama", 64, 128, 2, 4, 2, 100)
    plain = model_of_config(config, "toy").num_params
    biased = model_of_config(config | {"attention_bias": True, "mlp_bias": True}, "toy").num_params
    assert biased - plain == 2 * ((64 + 32 + 32 + 64) + (128 + 128 + 64))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bloom"}, "model_type 'bloom' is not counted here, only deepseek_v2, .*: give"),
        ({"model_type": None}, "model_type None is not counted"),
        ({"model_type": ["llama"]}, "is not counted"),
        ({"hidden_size": None}, "toy has no hidden_size: add it"),
        ({"hidden_size": "64"}, "hidden_size is '64': give a whole number from 1"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"hidden_size": 64.0}, "hidden_size is 64.0"),
        ({"hidden_size": -64}, "hidden_size is -64"),
        ({"hidden_size": 10**30}, "hidden_size is 10+: give"),
        ({"hidden_size": 65}, "hidden_size 65 does not divide by num_attention_heads 4"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 does not divide by num_key_value_heads 3"),
        ({"num_key_value_heads": 8}, "num_attention_heads 4 does not divide by num_key_value_heads 8"),
        ({"model_type": "phi3", "num_key_value_heads": 3}, "num_attention_heads 4 does not divide by"),
        (
            {"model_type": "falcon", "num_kv_heads": 3, "new_decoder_architecture": True},
            "num_attention_heads 4 does not divide by num_kv_heads 3",
        ),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers is 1000000: give a whole number from 1 to 10000"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings is 1: give true or false"),
    ],
)  # fmt: skip
def test_a_config_that_cannot_be_counted_says_which_field(change: Config, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model_of_config(llama_like("llama", 64, 128, 2, 4, 2, 100) | change, "toy")


def test_variants_without_a_published_count_are_refused() -> None:
    phi = PUBLISHED["Phi-2"][0] | {"qk_layernorm": True}
    with pytest.raises(ValueError, match="qk_layernorm True is not counted, only False: give --safetensors"):
        model_of_config(phi, "phi")
    with pytest.raises(ValueError, match="mlp_only_layers is 'all': give a list"):
        Fields({"mlp_only_layers": "all"}, "toy").numbers("mlp_only_layers")


@pytest.mark.parametrize("text", ["{", "[1]", "", "[" * 100_000, '"llama"'])
def test_a_file_that_is_no_config_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"config.json .*: give a model's config.json"):
        read_config(path)


def test_a_config_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(PUBLISHED["GPT-2"][0]))
    assert read_config(path).num_params == 124_439_808
    with pytest.raises(ValueError, match=r"is no file: give a model's config.json"):
        read_config(tmp_path)
