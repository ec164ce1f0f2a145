"""A model from its config.json."""

import json
from pathlib import Path
from typing import Any

from zero_emulator.model_families import FAMILIES
from zero_emulator.model_families.fields import Fields
from zero_emulator.shapes import Model

MOST_CHARACTERS = 2**24
"""The longest config file that is read: they have a few thousand."""


def read_config(path: Path) -> Model:
    """The model that a Hugging Face config describes; OSError or ValueError with the file's name."""
    if not path.is_file():
        raise ValueError(f"{path} is no file: give a model's config.json")
    with path.open(encoding="utf-8") as file:
        try:
            text = file.read(MOST_CHARACTERS + 1)
            config = json.loads(text) if len(text) <= MOST_CHARACTERS else None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is no JSON ({error}): give a model's config.json") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds no JSON object: give a model's config.json")
    return model_of_config(config, str(path))


def model_of_config(config: dict[str, Any], name: str) -> Model:
    """The model by its shapes; ValueError for a family that is not known, with those that are."""
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise ValueError(
            f"{name}: model_type {family!r:.40} is not counted here, only {', '.join(FAMILIES)}: "
            "give --safetensors or --params"
        )
    return FAMILIES[family](Fields(config, name))
