"""How a command ends that was short of time: with the right code, and never without a word."""

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from zero_emulator.outputs import Outputs

SMALL = ("--hidden", "4", "--iterations", "5", "--batch-size", "8", "--transport", "threads")


@pytest.mark.parametrize("name", ["train", "compare"])
def test_files_that_take_longer_than_the_time_limit_do_not_cost_the_run(
    command: Any, monkeypatch: Any, tmp_path: Path, name: str
) -> None:
    publish = Outputs.publish

    def slow(self: Outputs, *what: Any) -> bool:
        time.sleep(3)
        return publish(self, *what)

    monkeypatch.setattr(Outputs, "publish", slow)
    record = tmp_path / "run.json"
    code, out, err = command(name, *SMALL, "--ranks", 3, "--time-limit", 2, "--record", record, "--quiet")
    assert (code, out, err) == (0, "verdict pass\n", "")
    assert json.loads(record.read_text())["verdict"] == "pass"


def test_a_rank_that_fails_over_its_files_ends_those_that_wait_for_it(command: Any, monkeypatch: Any) -> None:
    def failing(self: Outputs, *what: Any) -> bool:
        raise ArithmeticError("out of numbers")

    monkeypatch.setattr(Outputs, "publish", failing)
    code, _, err = command("train", *SMALL, "--ranks", 3)
    assert (code, err.splitlines()[-1]) == (3, "rank 0 raised ArithmeticError: out of numbers")


def test_threads_that_wait_too_long_say_who_waited_for_what(command: Any) -> None:
    """Not that another rank has failed: nobody has."""
    code, out, err = command("train", *SMALL, "--ranks", 4, "--time-limit", "1e-9")
    *_, last = err.splitlines()
    assert (code, out) == (3, "")
    assert re.fullmatch(r"rank \d raised TransportError: rank \d waited 1e-09 s for .*", last)
    assert err.count("Traceback") == 1


def test_threads_that_cannot_be_started_are_told_in_one_line(command: Any, monkeypatch: Any) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert command("train", *SMALL) == (3, "", "zero-emulator: RuntimeError: can't start new thread\n")
