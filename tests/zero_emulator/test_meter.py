"""The meter: what it counts, when it forgets, and a device that is too small."""

import re
import sys
from typing import Any

import numpy as np
import pytest

from collectives.transports.threads import run_threads
from zero_emulator.cli import main
from zero_emulator.compare import compare
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.expected_memory import expected_peak
from zero_emulator.meter import DeviceMemoryError, HostMemoryError, Meter, Moment, Peak
from zero_emulator.run import run


def test_an_array_counts_until_nobody_holds_it() -> None:
    meter = Meter()
    view, kept = meter.empty("view", (2, 5), np.float32), meter.zeros("weight", 3, np.float64)
    assert meter.alive == {"view": 40, "weight": 24}
    bias = view[1, 4:]  # one number of ten
    del view
    assert meter.alive == {"view": 40, "weight": 24}
    del bias
    assert meter.alive == {"view": 0, "weight": 24}
    assert not kept.any()


def test_the_peak_is_the_first_of_the_highest_moments() -> None:
    meter = Meter()
    for iteration in (1, 2):
        for phase, size in (("forward", 1), ("backward", 3), ("update", 2)):
            meter.at = Moment(iteration, phase, 0)
            meter.empty("buffer", size, np.uint8)
    assert meter.peak == Peak({"buffer": 3}, Moment(1, "backward", 0))
    assert str(meter.peak) == "3 bytes in the backward of layer 0 in iteration 1: 3 buffer"


def test_a_view_is_not_tracked_beside_its_owner() -> None:
    with pytest.raises(AssertionError, match="a view of 8 bytes owns none"):
        Meter().track("view", np.zeros(2)[:1])


def test_what_does_not_fit_is_not_allocated_and_says_what_is_there() -> None:
    meter = Meter(limit=100, advice=lambda: "take less")
    weight = meter.zeros("weight", 60, np.uint8)
    meter.at = Moment(2, "forward", 1)
    message = (
        "41 bytes of view do not fit in the forward of layer 1 in iteration 2: 60 of the 100 of "
        "--device-memory are taken, 60 weight: take less"
    )
    for allocate in (meter.empty, meter.zeros):
        with pytest.raises(DeviceMemoryError, match=re.escape(message)):
            allocate("view", 41, np.uint8)
    assert meter.peak.total == weight.nbytes
    meter.empty("view", 40, np.uint8)
    assert meter.peak.total == 100


def test_a_host_that_is_too_small_names_itself_and_its_option() -> None:
    host = Meter(limit=100, place="host")
    kept = host.zeros("weight", 60, np.uint8)
    with pytest.raises(
        HostMemoryError, match="60 of the 100 of --host-memory are taken, 60 weight: take more"
    ):
        host.empty("weight", 41, np.uint8)
    assert host.peak.total == kept.nbytes


@pytest.fixture
def device(toy: Dataset, settings: dict[str, Any]) -> int:
    """What ZeRO-3 holds on 4 ranks and not a byte more."""
    config = RunConfig(**settings | {"strategy": "zero3", "hidden": (32,) * 6})
    return max(expected_peak(config, config.partition(toy, 4), rank).total for rank in range(4))


def train_on(device: int, strategy: str, toy: Dataset, settings: dict[str, Any]) -> Any:
    config = RunConfig(**settings | {"strategy": strategy, "hidden": (32,) * 6, "device_memory": device})
    return run_threads(4, lambda transport: run(config, toy, transport))


def test_plain_data_parallelism_fails_on_a_device_where_zero3_fits(
    device: int, toy: Dataset, settings: dict[str, Any]
) -> None:
    outcome = train_on(device, "zero3", toy, settings)[0]
    assert max(report.peak.total for report in outcome.reports) == device
    with pytest.raises(DeviceMemoryError) as raised:
        train_on(device, "ddp", toy, settings)
    said = re.fullmatch(
        r"(\d+) bytes of \w+ do not fit in the set-up: (\d+) of the (\d+) of --device-memory are taken, "
        r"(\d+) weight, (\d+) gradient, (\d+) moment: "
        r"ddp holds (\d+) on 4 ranks; what fits is zero3 with (\d+)",
        str(raised.value),
    )
    assert said, raised.value
    asked, taken, limit, *kinds, holds, fits = map(int, said.groups())
    assert taken == sum(kinds)
    assert asked + taken > limit == device == fits < holds


def test_a_byte_less_is_too_little_in_the_middle_of_an_iteration(
    device: int, toy: Dataset, settings: dict[str, Any]
) -> None:
    with pytest.raises(DeviceMemoryError, match=r"of layer \d in iteration 1: .* even zero3 holds") as raised:
        train_on(device - 1, "zero3", toy, settings)
    assert "take more ranks, or more micro-batches" in str(raised.value)


@pytest.mark.parametrize(("strategy", "code"), [("ddp", 3), ("zero3", 0)])
def test_a_run_that_does_not_fit_ends_with_code_3(
    monkeypatch: Any, capsys: Any, strategy: str, code: int
) -> None:
    command = "train --ranks 4 --transport threads --iterations 1 --hidden 64,64 --device-memory 120KiB"
    monkeypatch.setattr(sys, "argv", ["zero-emulator", *command.split(), "--strategy", strategy])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code or 0) == code
    said = capsys.readouterr()
    if code == 3:
        assert re.fullmatch(r"rank \d raised DeviceMemoryError: .*\n", said.err), "one line, no traceback"
    else:
        assert said.err == ""
    assert ("verdict pass" in said.out) == (code == 0)


def test_a_comparison_leaves_out_what_does_not_fit_and_says_so(monkeypatch: Any, capsys: Any) -> None:
    command = "compare --ranks 4 --transport threads --iterations 1 --batch-size 4 --device-memory 256KiB"
    layers = ",".join(["64"] * 7)
    monkeypatch.setattr(sys, "argv", ["zero-emulator", *command.split(), "--hidden", layers])
    with pytest.raises(SystemExit) as ended:
        main()
    out = capsys.readouterr().out
    assert not ended.value.code
    rows = [line.split() for line in out.splitlines() if line.startswith(("ddp", "zero"))]
    assert [row[:3] for row in rows if row[-1] == "pass"] == [
        ["zero2", "7", "8.484"],
        ["zero3", "4", "6.043"],
    ]
    assert re.search(r"^ddp is not run: .* would hold \d+ bytes, and the device has 262144$", out, re.M)
    assert "zero1 is not run: " in out
    assert "zero2 = zero3, bit for bit" in out


def test_a_comparison_of_which_nothing_fits_fails_with_the_ledger(
    toy: Dataset, settings: dict[str, Any]
) -> None:
    config = RunConfig(**settings | {"device_memory": 1000})

    def body(transport: Any) -> object:
        return compare(config, toy, transport, run_one=lambda one: run(one, toy, transport))

    with pytest.raises(DeviceMemoryError, match=r"even zero\d holds"):
        run_threads(2, body)
