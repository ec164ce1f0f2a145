"""Precision policies: what they keep, and what they refuse."""

import subprocess
import sys

import pytest

from zero_emulator.precision import PRECISIONS, find_precision


def test_presets_keep_the_published_bytes_a_parameter_with_adam() -> None:
    kept = {name: sum(policy.bytes_a_parameter(2).values()) for name, policy in PRECISIONS.items()}
    assert kept == {
        "fp32": 16, "fp64": 32, "bf16": 16, "bf16-fp32grad": 18, "bf16+fp32grad": 20, "fp16": 16,
    }  # fmt: skip


def test_an_optimizer_with_one_moment_keeps_four_bytes_less() -> None:
    assert sum(find_precision("bf16").bytes_a_parameter(1).values()) == 12


def test_a_gradient_of_another_dtype_is_reduced_in_it_unless_told() -> None:
    wide = find_precision("bf16").override(gradient="float32")
    assert (wide.gradient, wide.reduce) == ("float32", "float32")
    told = find_precision("bf16").override(reduce="float32")
    assert (told.gradient, told.reduce) == ("bfloat16", "float32")
    assert find_precision("bf16").override() == PRECISIONS["bf16"]


def test_a_dtype_that_makes_no_sense_is_refused_by_role() -> None:
    with pytest.raises(ValueError, match="reduce dtype int8: take one of float64, float32"):
        find_precision("bf16").override(reduce="int8")
    with pytest.raises(ValueError, match="no precision 'fp8': take one of fp32, fp64"):
        find_precision("fp8")


REFUSED = {
    "param_wire_dtype='int8'": "weight_wire dtype int8: take one of float64",
    "precision='fp32', param_wire_dtype='bfloat16'": "weights do not survive a wire of bfloat16",
    "optimizer='adam', momentum=0.9": "adam has no momentum, given as 0.9",
}
TRY_ALL = """
import sys
from zero_emulator.config import RunConfig
for settings in sys.argv[1:]:
    try:
        eval(f"RunConfig({settings})")
        print("taken")
    except ValueError as error:
        print(error)
"""


def test_a_run_is_refused_where_asserts_are_switched_off_too() -> None:
    ended = subprocess.run(
        [sys.executable, "-O", "-c", TRY_ALL, *REFUSED],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    told = ended.stdout.splitlines()
    assert len(told) == len(REFUSED)
    assert all(message in line for message, line in zip(REFUSED.values(), told, strict=True))
