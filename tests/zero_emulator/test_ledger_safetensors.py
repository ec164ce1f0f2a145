"""Models by the header of a safetensors file, and headers that lie."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zero_emulator.safetensors_header import Entry, parse_header, read_header
from zero_emulator.safetensors_model import model_of_entries, read_model
from zero_emulator.shapes import Tensor

ITEMSIZE = {"F32": 4, "BF16": 2}


def header_of(tensors: dict[str, tuple[str, list[int]]]) -> bytes:
    declared: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = ITEMSIZE.get(dtype, 1)
        for side in shape:
            size *= side
        declared[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    return json.dumps(declared).encode()


def write(path: Path, header: bytes, length: int | None = None) -> Path:
    path.write_bytes((len(header) if length is None else length).to_bytes(8, "little") + header)
    return path


MOE = {
    "model.embed_tokens.weight": ("BF16", [10, 4]),
    "model.layers.10.mlp.experts.0.up.weight": ("BF16", [3, 4]),
    "model.layers.2.mlp.experts.0.up.weight": ("BF16", [3, 4]),
    "model.layers.2.mlp.experts.1.up.weight": ("BF16", [3, 4]),
    "model.layers.2.mlp.shared_experts.up.weight": ("BF16", [5, 4]),
    "model.layers.2.norm.weight": ("F32", [4]),
    "model.norm.weight": ("BF16", [4]),
    "lm_head.weight": ("BF16", [10, 4]),
}


def test_a_numbered_block_is_a_layer_and_equal_experts_are_a_stack(tmp_path: Path) -> None:
    model = read_model(write(tmp_path / "m.safetensors", header_of(MOE)))
    assert [layer.name for layer in model.layers] == ["first", "model.layers.2", "model.layers.10", "last"]
    assert model.blocks[0].tensors == (
        Tensor("mlp.experts.up.weight", (3, 4), stack=2, expert=True),
        Tensor("mlp.shared_experts.up.weight", (5, 4)),
        Tensor("norm.weight", (4,)),
    )
    assert (model.num_params, model.num_expert_params) == (40 + 12 + 24 + 20 + 4 + 4 + 40, 36)


def test_experts_in_one_tensor_are_a_stack_too() -> None:
    model = model_of_entries([Entry("layers.0.mlp.experts.gate_up_proj", "BF16", (8, 3, 4), 0, 192)], "toy")
    assert model.blocks[0].tensors == (Tensor("mlp.experts.gate_up_proj", (3, 4), stack=8, expert=True),)


def test_masks_and_angles_are_no_parameters() -> None:
    """The checkpoint of GPT-2 holds its causal masks under the name of a bias."""
    entries = [
        Entry("h.0.attn.bias", "F32", (1, 1, 8, 8), 0, 256),
        Entry("h.0.attn.c_attn.bias", "F32", (12,), 256, 304),
        Entry("h.0.rotary_emb.inv_freq", "F32", (2,), 304, 312),
        Entry("h.0.attn.masked_bias", "F32", (), 312, 316),
    ]
    assert model_of_entries(entries, "toy").num_params == 12


def test_quantized_weights_are_refused() -> None:
    with pytest.raises(ValueError, match=r"layers.0.q is I32, quantized or no weight: give a file of F64"):
        model_of_entries([Entry("layers.0.q", "I32", (3,), 0, 12)], "toy")


def test_the_data_is_not_needed(tmp_path: Path) -> None:
    header = header_of({"w": ("F32", [100_000, 100_000])})
    assert read_model(write(tmp_path / "m.safetensors", header)).num_params == 10**10


def test_an_index_stands_for_its_files(tmp_path: Path) -> None:
    write(tmp_path / "a.safetensors", header_of({"layers.0.w": ("F32", [2, 3])}))
    write(tmp_path / "b.safetensors", header_of({"layers.1.w": ("F32", [2, 3])}))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(
        json.dumps({"weight_map": {"layers.0.w": "a.safetensors", "layers.1.w": "b.safetensors"}})
    )
    assert len(read_model(index).blocks) == 2
    write(tmp_path / "b.safetensors", header_of({"layers.0.w": ("F32", [2, 3])}))
    with pytest.raises(ValueError, match=r"b.safetensors: layers.0.w is in another file"):
        read_model(index)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "has no weight_map"),
        ("[]", "has no weight_map"),
        ('{"weight_map": 3}', "has no weight_map"),
        ('{"weight_map": {"w": ["a"]}}', "has no weight_map"),
        ('{"weight_map": {"w": "../a.safetensors"}}', "only files beside it are read"),
        ('{"weight_map": {"w": 3}}', "only files beside it are read"),
        ('{"weight_map": {"w": "gone.safetensors"}}', r"gone.safetensors is no file"),
        ('{"weight_map": {}}', "declares no parameters"),
    ],
)
def test_an_index_that_lies_is_named(text: str, message: str, tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_model(index)


def entry(name: str, *offsets: int, shape: Any = None, dtype: Any = "F32") -> str:
    shape = [(offsets[1] - offsets[0]) // 4] if shape is None else shape
    return f'"{name}": {json.dumps({"dtype": dtype, "shape": shape, "data_offsets": offsets})}'


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("", r"a header of 0: no safetensors file"),
        ("not json", "the header is no JSON"),
        ("[" * 99_999, "the header is no JSON"),
        ("[1]", "the header is list, not an object"),
        ('{"w": 3}', "w is 3: no dtype, shape and data_offsets"),
        ('{"w": {"dtype": "F32", "shape": [1]}}', "no dtype, shape and data_offsets"),
        ('{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}', "no dtype, shape and data_offsets"),
        (f"{{{entry('w', 0, 4, shape=[-1])}}}", r"w is \'F32\' of shape \[-1\]"),
        (f"{{{entry('w', 0, 4, shape=[True])}}}", r"of shape \[True\]"),
        (f"{{{entry('w', 0, 4, shape=4)}}}", "of shape 4 from 0 to 4"),
        (f"{{{entry('w', -4, 0, shape=[1])}}}", "from -4 to 0"),
        (f"{{{entry('w', 0, 4, dtype=[])}}}", r"w is \[\] of shape \[1\]"),
        (f"{{{entry('w', 0, 2**70)}}}", "w is .* from 0 to 11"),
        (f"{{{entry('w', 0, 4, shape=[2])}}}", r"w of F32 \(2,\) has 4 bytes"),
        (
            f"{{{entry('w', 8, 4, shape=[0])}}}",
            "from 8 to 4: give a dtype's name and whole numbers, the end last",
        ),
        (f"{{{entry('w', 0, 8)}, {entry('v', 4, 8)}}}", "v begins at byte 4, overlaps w, at 8"),
        (f"{{{entry('w', 0, 8)}, {entry('v', 12, 16)}}}", "v begins at byte 12, leaves a hole after w, at 8"),
        (f"{{{entry('w', 4, 8)}}}", "w begins at byte 4, leaves a hole after the start, at 0"),
        (f"{{{entry('w', 0, 4)}, {entry('w', 4, 8)}}}", "a name twice"),
        (f"{{{entry('w' * 301, 0, 4)}}}", "a tensor's name of 301 characters, 300 are the most"),
        (f"{{{entry('w', 0, 0)}}}", "declares no parameters"),
    ],
)
def test_a_header_that_lies_is_named_in_one_line(header: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "m.safetensors", header.encode())
    with pytest.raises(ValueError, match=message) as refused:
        read_model(path)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes and a header of 0: no safetensors file"),
        (b"\x05\0\0", "3 bytes"),
        ((2**63).to_bytes(8, "little"), "a header of 9223372036854775808 bytes, 100000000 are the most"),
        ((50).to_bytes(8, "little") + b"{}", "a header of 50 bytes, 2 are there: fetch the file again"),
        ((3).to_bytes(8, "little") + b'"\xff"', "the header is no JSON"),
    ],
)
def test_a_file_that_is_cut_short_or_something_else_is_named(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_header(path)
    with pytest.raises(ValueError, match="is no file"):
        read_header(tmp_path)


ODD = st.sampled_from([None, True, -1, 0, 1, 4, 0.5, "F32", "I8", [], [2], [-1], [0, 4], [4, 0], {}, 2**64])


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["v", "w", "__metadata__"]),
        ODD | st.fixed_dictionaries({}, optional={"dtype": ODD, "shape": ODD, "data_offsets": ODD}),
    )
    | ODD
)
def test_no_header_whatever_brings_the_reader_down(declared: Any) -> None:
    try:
        entries = parse_header(json.dumps(declared).encode(), "toy")
    except ValueError:
        return
    assert all(entry.end >= entry.begin for entry in entries)
