"""What a dataclass may declare to be read from JSON, and that nothing else is read as if it were that."""

from dataclasses import make_dataclass
from typing import Any

import pytest

from zero_emulator.declared import read_declared


def read(hint: Any, value: Any) -> Any:
    return read_declared(make_dataclass("Declared", [("field", hint)]), {"field": value}, "it").field


@pytest.mark.parametrize("hint", [int | None, None | int])
def test_an_optional_is_null_or_the_other_whichever_stands_first(hint: Any) -> None:
    assert read(hint, None) is None
    assert read(hint, 3) == 3
    with pytest.raises(ValueError, match=r"it\.field is 'three', not a whole number"):
        read(hint, "three")


@pytest.mark.parametrize("hint", [int | str, int | str | None, tuple[int, str], set[int], bytes])
def test_a_field_that_could_not_be_read_whole_is_a_fault_of_its_declaration(hint: Any) -> None:
    with pytest.raises(TypeError, match=r"it\.field is declared as"):
        read(hint, [1])


def test_an_optional_is_not_null_where_it_is_not_declared_so() -> None:
    with pytest.raises(ValueError, match=r"it\.field is None, not a whole number"):
        read(int, None)
