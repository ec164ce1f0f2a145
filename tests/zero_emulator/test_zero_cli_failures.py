"""A run that fails: exit code 1, a verdict that says so, and files that are whole or not there."""

import json
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collectives.transports.metered import MeteredTransport
from zero_emulator.layer_params import LayerParams
from zero_emulator.strategies.base import Strategy

SMALL = ("--hidden", "4", "--iterations", "2", "--batch-size", "8")
ON_THREADS = (*SMALL, "--transport", "threads", "--ranks", "2")
DIVERGING = ("--loss", "mse", "--optimizer", "sgd", "--lr", "1e30", "--iterations", "4")


def test_a_run_that_keeps_too_much_fails_with_code_1_and_is_recorded(
    command: Any, monkeypatch: Any, folder: Path
) -> None:
    plan = LayerParams.__init__

    def whole(self: LayerParams, initial: Any, *more: Any) -> None:
        plan(self, initial, *more)
        self.weight = initial[self.own]

    monkeypatch.setattr(LayerParams, "__init__", whole)
    code, out, _ = command("train", *ON_THREADS, "--strategy", "zero3", "--record", "run.json")
    assert code == 1
    assert "verdict fail" in out
    assert re.search(r"^  rank 0 keeps \d+ bytes of weight.*, expected", out, re.M)
    record = json.loads(Path("run.json").read_text())
    assert (record["verdict"], len(record["faults"])) == ("fail", 4)  # of each rank what it keeps and holds


def test_strategies_that_disagree_fail_with_code_1_and_say_from_when(command: Any, monkeypatch: Any) -> None:
    update = Strategy.update

    def skipping(self: Strategy, iteration: int) -> None:
        if self.name == "zero2" and self.comm.rank == 1 and self.updates == 1:
            self.updates += 1
            for params in self.layers:
                params.version += 1
        else:
            update(self, iteration)

    monkeypatch.setattr(Strategy, "update", skipping)
    code, out, _ = command("compare", *ON_THREADS)
    assert code == 1
    assert "\nzero2 differs from ddp from iteration 2 on\n" in out


def test_bytes_that_were_not_counted_fail_with_code_1(command: Any, monkeypatch: Any, folder: Path) -> None:
    post = MeteredTransport.post

    def forgetful(self: MeteredTransport, sends: Any, recvs: Any, tag: int, origin: Any) -> Any:
        metered = post(self, sends, recvs, tag, origin)
        if self.rank == 1 and origin.call.label.layer == 0:
            metered.entry.sends.clear()
        return metered

    monkeypatch.setattr(MeteredTransport, "post", forgetful)
    code, out, err = command("train", *ON_THREADS, "--record", "run.json")
    assert code == 1
    assert "  iteration 1, rank 1: counted" in out
    assert err == ""
    assert json.loads(Path("run.json").read_text())["verdict"] == "fail"
    code, out, err = command("train", *ON_THREADS, "--events", "events")
    assert code == 1
    assert "\nverdict fail\n" in out
    assert err.startswith("zero-emulator: events was not written, its messages do not pair: ")
    assert not Path("events").exists()


def test_a_verdict_of_fail_is_all_that_quiet_prints(command: Any) -> None:
    assert command("train", *ON_THREADS, *DIVERGING, "--quiet") == (1, "verdict fail\n", "")


@pytest.mark.parametrize(("settings", "expected"), [((), 2), (DIVERGING, 1)])
@pytest.mark.parametrize("name", ["train", "compare"])
def test_files_that_cannot_be_written_do_not_cost_the_verdict(
    command: Any, folder: Path, name: str, settings: tuple[str, ...], expected: int
) -> None:
    Path("run.json").write_text("before")
    with files_of_at_most(1000):
        code, out, err = command(name, *ON_THREADS, *settings, "--record", "run.json", "--events", "events")
    verdict = "pass" if expected == 2 else "fail"
    assert code == expected
    assert f"\nverdict {verdict}\n" in out
    assert err == "".join(
        f"zero-emulator: {path} could not be written (File too large): name another place\n"
        for path in ("run.json", "events")
    )
    assert Path("run.json").read_text() == "before"
    assert not Path("events").exists()


@contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """As on a disk that fills."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
