"""Every example in a docstring of the two packages gives what it says."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(
    path.relative_to(ROOT)
    for package in ("collectives", "zero_emulator")
    for path in (ROOT / package).rglob("*.py")
    if ">>> " in path.read_text()
)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_the_examples_of_a_file_hold(path: Path) -> None:
    module = importlib.import_module(".".join(path.with_suffix("").parts))
    failed, attempted = doctest.testmod(module)
    assert attempted > 0, "no example was found"
    assert failed == 0, "see the output above"
