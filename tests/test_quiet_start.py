"""Ctrl-C in the first moment of a command, while it imports what it needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

INTERRUPTED = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, *rest):
        if name == "{late}":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
from {package}.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("package", "late"), [("zero_emulator", "numpy"), ("zero_emulator", "click"), ("collectives", "click")]
)
def test_ctrl_c_during_the_imports_ends_a_command_without_a_word(package: str, late: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(package=package, late=late), "--version"],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("package", ["zero_emulator", "collectives"])
def test_who_ignores_ctrl_c_goes_on_ignoring_it(package: str) -> None:
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)" + INTERRUPTED
    done = subprocess.run(
        [sys.executable, "-c", code.format(package=package, late="click"), "--help"],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage:")
