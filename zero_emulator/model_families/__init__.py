"""The decoders that are counted from their configs: one function a family, and the table of all."""

from collections.abc import Callable

from zero_emulator.model_families.deepseek import deepseek
from zero_emulator.model_families.experts import mixtral, qwen2_moe, qwen3_moe
from zero_emulator.model_families.fields import Fields
from zero_emulator.model_families.gated import gemma, gemma2, llama, mistral, phi3, qwen2, qwen3
from zero_emulator.model_families.plain import falcon, gpt2, gpt_neox, opt, phi
from zero_emulator.shapes import Model

FAMILIES: dict[str, Callable[[Fields], Model]] = {
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek,
    "falcon": falcon,
    "gemma": gemma,
    "gemma2": gemma2,
    "gpt2": gpt2,
    "gpt_neox": gpt_neox,
    "llama": llama,
    "mistral": mistral,
    "mixtral": mixtral,
    "opt": opt,
    "phi": phi,
    "phi3": phi3,
    "qwen2": qwen2,
    "qwen2_moe": qwen2_moe,
    "qwen3": qwen3,
    "qwen3_moe": qwen3_moe,
}
"""The table of families, by the ``model_type`` of a Hugging Face config."""
