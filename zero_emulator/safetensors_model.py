"""A model from a safetensors file, or from the index of many."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zero_emulator.safetensors_header import DTYPES, Entry, read_header
from zero_emulator.shapes import Model, ModelLayer, Tensor

BLOCK = re.compile(r"(.*?\b(?:layers?|h|blocks?)\.)(\d+)\.(.+)")
"""What stands before the number of a block, the number, and the rest."""

EXPERT = re.compile(r"(.*\bexperts\.)(?:(\d+)\.)?(.+)")
"""An expert, or a stack of them without a number. Shared experts are not chosen among: `_` is no border."""

EMBEDDING = re.compile(r"emb(?!ed_out)|wte|wpe")
"""Except for ``embed_out``, which is a head."""

BUFFER = re.compile(r"inv_freq$|masked_bias$|\battn\.bias$|attention\.bias$")
"""Constants that old checkpoints carry along: angles and masks. A bias that is trained has one dimension."""

LONGEST_INDEX = 2**26


def read_model(path: Path) -> Model:
    """The model whose tensors the file declares, a numbered block a layer; OSError or ValueError.

    A head that is tied to its embedding is not stored twice, and so not known to be one.
    """
    files = _files_of_index(path) if path.name.endswith(".json") else [path]
    entries: dict[str, Entry] = {}
    for file in files:
        for entry in read_header(file):
            if entry.name in entries:
                raise ValueError(f"{file}: {entry.name} is in another file of {path}, too")
            entries[entry.name] = entry
    return model_of_entries(entries.values(), str(path))


def _files_of_index(path: Path) -> list[Path]:
    """The files beside the index that it names."""
    if not path.is_file():
        raise ValueError(f"{path} is no file: give a .safetensors file or its index")
    with path.open(encoding="utf-8") as file:
        try:
            index: Any = json.loads(file.read(LONGEST_INDEX))
            names = sorted(set(index["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path} has no weight_map ({error!r:.60}): give a .safetensors file") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise ValueError(f"{path} names {name!r:.60}: only files beside it are read")
    return [path.parent / name for name in names]


def model_of_entries(entries: Iterable[Entry], name: str) -> Model:
    """Layers in the order of their numbers; what has none comes first if it embeds, else last."""
    first: list[Tensor] = []
    last: list[Tensor] = []
    blocks: dict[tuple[str, int], dict[tuple[str, tuple[int, ...], bool], int]] = {}
    for entry in entries:
        if (BUFFER.search(entry.name) and len(entry.shape) != 1) or entry.name.endswith("inv_freq"):
            continue
        if entry.dtype not in DTYPES:
            raise ValueError(
                f"{name}: {entry.name} is {entry.dtype:.20}, quantized or no weight: "
                f"give a file of {', '.join(DTYPES)}"
            )
        block = BLOCK.fullmatch(entry.name)
        if block is None:
            (first if EMBEDDING.search(entry.name) else last).append(Tensor(entry.name, entry.shape))
            continue
        tensors = blocks.setdefault((block[1], int(block[2])), {})
        key, number = _unstacked(block[3], entry.shape)
        tensors[key] = tensors.get(key, 0) + number
    layers = tuple(
        ModelLayer(
            f"{prefix}{number}",
            tuple(
                Tensor(*key[:2], stack=stack, expert=key[2]) for key, stack in blocks[prefix, number].items()
            ),
            is_block=True,
        )
        for prefix, number in sorted(blocks)
    )
    model = Model(name, ModelLayer("first", tuple(first)), layers, ModelLayer("last", tuple(last)))
    if not model.num_params:
        raise ValueError(f"{name} declares no parameters: give a file of weights")
    return model


def _unstacked(name: str, shape: tuple[int, ...]) -> tuple[tuple[str, tuple[int, ...], bool], int]:
    """Name, shape and kind that equal experts share, and how many of them this tensor is."""
    expert = EXPERT.fullmatch(name)
    if expert is None:
        return (name, shape, False), 1
    if expert[2] is None and len(shape) > 1:
        return (name, shape[1:], True), shape[0]
    return (expert[1] + expert[3], shape, True), 1
