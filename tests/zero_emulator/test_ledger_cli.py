"""The `zero-emulator ledger` command: what it prints, and what it refuses in one line."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from zero_emulator.cli import main
from zero_emulator.meter import PASSING

EIGHT_BILLION = """\
8000000000 parameters on 4 ranks, bf16, adam, 1 micro-batch an iteration
strategy  persistent GB    GiB  B/param  formula   claim  exactly         sent bytes
ddp               128.0  119.2       16  16        2Ψ     f (2 + 2) Ψ    24000000000
zero1              56.0   52.2        7  4 + 12/N  2Ψ     f (2 + 2) Ψ    24000000000
zero2              44.0   41.0      5.5  2 + 14/N  2Ψ     f (2 + 2) Ψ    24000000000
zero3              32.0   29.8        4  16/N      3Ψ     f (2·2 + 2) Ψ  36000000000
persistent between iterations, sent in one, by the fullest rank; GB is 10^9 bytes, GiB is 2^30
N is the number of copies of a weight, 4; f = (N - 1)/N
what a layer in use adds needs the layers' shapes: give --config or --safetensors
"""

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "vocab_size": 32000,
}  # fmt: skip
MIXTRAL = LLAMA | {"model_type": "mixtral", "intermediate_size": 14336}


@pytest.fixture
def ledger(monkeypatch: Any, capsys: Any, tmp_path: Path) -> Any:
    """Run the command beside a few files: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    Path("llama.json").write_text(json.dumps(LLAMA))
    Path("mixtral.json").write_text(json.dumps(MIXTRAL))
    Path("bloom.json").write_text('{"model_type": "bloom"}')
    Path("text.json").write_text("hello\nworld")
    header = b'{"layers.0.w": {"dtype": "BF16", "shape": [8, 4], "data_offsets": [0, 64]}}'
    Path("tiny.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    Path("huge.safetensors").write_bytes(b"\xff" * 8 + header)

    def ledger(arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["zero-emulator", "ledger", *arguments.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return ledger


def rows_of(result: tuple[int, str, str]) -> dict[str, Any]:
    code, out, _ = result
    assert code == 0
    document = json.loads(out)
    assert document["schema"] == "zero-emulator/ledger/2"
    return {row["strategy"]: row for row in document["rows"]}


def test_eight_billion_on_four_ranks_print_as_the_readme_shows(ledger: Any) -> None:
    assert ledger("--params 8e9 --ranks 4") == (0, EIGHT_BILLION, "")


@pytest.mark.parametrize(
    ("arguments", "gigabytes"),
    [
        ("--params 8e9", [128, 56, 44, 32]),
        ("--params 7e9 --ranks 1", [112, 112, 112, 112]),
        ("--params 8B --optimizer muon", [96, 48, 36, 24]),
        ("--params 8B --precision bf16-fp32grad", [144, 72, 48, 36]),
        ("--params 8B --precision bf16+fp32grad", [160, 88, 52, 40]),
        ("--params 16B --tensor-parallel 2 --ranks 8", [128, 56, 44, 32]),
        ("--params 64B --tensor-parallel 2 --pipeline 4 --ranks 32", [128, 56, 44, 32]),
        ("--params 8B --expert-params 4B --expert 2", [96, 48, 40, 32]),
    ],
)
def test_the_document_holds_the_published_figures(ledger: Any, arguments: str, gigabytes: list[int]) -> None:
    rows = rows_of(ledger(f"{arguments} --json"))
    assert [row["persistent"]["total"] for row in rows.values()] == [each * 10**9 for each in gigabytes]
    for row in rows.values():
        assert sum(row["persistent"]["by_kind"].values()) == row["persistent"]["total"]


def test_an_80_gb_device_holds_7_billion_from_two_ranks_on_but_never_plainly(ledger: Any) -> None:
    rows = rows_of(ledger("--params 7e9 --ranks 1 --device-memory 80GB --json"))
    assert [row["fits"]["fewest_ranks"] for row in rows.values()] == [None, 2, 2, 2]
    assert not any(row["fits"]["persistent"] for row in rows.values())
    _, out, _ = ledger("--params 7e9 --ranks 2 --device-memory 80GB")
    assert [line.split()[-2:] for line in out.splitlines()[2:6]] == [["no", "never"], *[["yes", "2"]] * 3]


def test_shapes_bring_what_a_layer_in_use_adds_without_activations(ledger: Any) -> None:
    """A block of Llama-2-7B has 202 383 360 parameters: views of two in BF16, one in FP32, its gradient."""
    rows = rows_of(ledger("--config llama.json --prefetch 1 --device-memory 29GB --json"))
    assert rows["zero3"]["persistent"]["total"] == 4 * 6_738_415_616
    assert rows["zero3"]["with_a_layer"]["total"] - 4 * 6_738_415_616 == (2 * 2 + 4 + 2) * 202_383_360
    assert set(rows["zero3"]["with_a_layer"]["by_kind"]) - {"persistent"} <= set(PASSING)
    assert rows["zero3"]["fits"] == {
        "persistent": True, "fewest_ranks": 4, "with_a_layer": True, "fewest_ranks_with_a_layer": 4,
    }  # fmt: skip
    _, out, _ = ledger("--config llama.json --compute bfloat16")
    assert "6738415616 parameters on 4 ranks" in out
    assert "with a layer GB" in out
    assert "without activations, so a run's peak is higher" in out


def test_gradients_in_more_micro_batches_cost_sharded_strategies_more(ledger: Any) -> None:
    rows = rows_of(ledger("--params 8e9 --micro-batches 4 --json"))
    assert [row["sent"]["bytes"] // 10**9 for row in rows.values()] == [24, 24, 60, 144]
    rows = rows_of(ledger("--params 8e9 --micro-batches 4 --keep-views all --json"))
    assert rows["zero3"]["sent"] == {"formula": "4·f (2 + 2) Ψ", "bytes": 96 * 10**9}


def test_a_last_layer_that_stays_is_gathered_once_less(ledger: Any) -> None:
    """Llama-2-7B ends in a norm and a head of 4096 + 4096 · 32000 parameters."""
    every, last = (
        rows_of(ledger(f"--config llama.json --keep-views {which} --json"))["zero3"]["sent"]
        for which in ("none", "last")
    )
    assert every["bytes"] - last["bytes"] == 2 * (4096 + 4096 * 32000) * 3 // 4
    assert last["formula"] == "f (2 + 2) Ψ + f 2 (Ψ - last)"


def test_muon_shows_matrices_and_the_rest_apart(ledger: Any) -> None:
    code, out, _ = ledger("--config llama.json --optimizer muon")
    assert code == 0
    assert "4 + 8/N, rest 4 + 12/N" in out
    _, out, _ = ledger("--params 8e9 --optimizer muon")
    assert "muon: all parameters are taken for matrices" in out


def test_experts_have_fewer_copies_than_the_rest(ledger: Any) -> None:
    code, out, _ = ledger("--config mixtral.json --ranks 16 --expert 8")
    assert code == 0
    assert "(45097156608 of experts)" in out
    assert "N is the number of copies of a weight, 16, of an expert's 2" in out


def test_a_header_is_enough_of_the_weights(ledger: Any) -> None:
    code, out, _ = ledger("--safetensors tiny.safetensors --ranks 2")
    assert code == 0
    assert out.startswith("tiny.safetensors: 32 parameters on 2 ranks")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "no model given: take one of --params, --config, --safetensors"),
        ("--params 8e9 --config llama.json", "--params and --config given: take one of"),
        ("--config llama.json --expert-params 3", "--expert-params 3 is for --params"),
        ("--params many", "'many' is no number of parameters: write 8e9"),
        ("--params 8e9 --device-memory 80XB", "'80XB' is no size: write 80GB"),
        ("--params 8e9 --ranks 0", "0 is not in the range x>=1"),
        (
            "--params 8e9 --ranks 8 --tensor-parallel 3",
            "8 ranks do not divide by --tensor-parallel 3: take a multiple of 3 ranks",
        ),
        ("--params 8e9 --ranks 8 --expert 2", "give --expert-params, --config or --safetensors"),
        ("--params 8 --expert-params 9", "9 expert parameters of 8"),
        ("--params 8 --keep-views last", "which of 8 parameters are in the last layer is not known: give"),
        ("--params 8e9 --precision fp8", "'fp8' is not one of"),
        ("--config gone.json", "gone.json is no file: give a model's config.json"),
        ("--config bloom.json", "model_type 'bloom' is not counted here, only deepseek_v2"),
        ("--config text.json", "text.json is no JSON"),
        (
            "--config llama.json --ranks 33 --pipeline 33",
            "pipeline 33 for 32 blocks of llama.json: take fewer",
        ),
        ("--config llama.json --expert 2", "llama.json has no experts"),
        ("--config mixtral.json --ranks 3 --expert 3", "8 experts do not divide by --expert 3"),
        (
            "--config llama.json --ranks 3 --tensor-parallel 3",
            "neither side of (32000, 4096) divides by --tensor-parallel 3",
        ),
        ("--safetensors gone.safetensors", "gone.safetensors is no file"),
        ("--safetensors huge.safetensors", "a header of 18446744073709551615 bytes, 100000000 are the most"),
        ("--safetensors llama.json", "llama.json has no weight_map"),
    ],
)
def test_what_cannot_be_worked_out_is_one_line_and_exit_2(ledger: Any, arguments: str, message: str) -> None:
    code, out, err = ledger(arguments)
    assert (code, out) == (2, "")
    assert err.startswith("zero-emulator: ")
    assert message in err
    assert err.count("\n") == 1
