"""A model config, read field by field."""

from collections.abc import Mapping
from typing import Any

MOST_LAYERS = 10_000
MOST = 10**8
"""No model is near; a config that says more would only fill the memory."""


class Fields:
    """A config whose fields are what they must be, or a ValueError that names field and value.

    A field that is absent or null has its family's default, as in the model's own code.
    """

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self.config = config
        self.name = name

    def size(self, field: str, default: int | None = None, *, least: int = 1, most: int = MOST) -> int:
        """A whole number."""
        value = self.config.get(field)
        value = default if value is None else value
        if value is None:
            raise ValueError(f"{self.name} has no {field}: add it, a whole number from {least}")
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(
                f"{self.name}: {field} is {value!r:.40}: give a whole number from {least} to {most}"
            )
        return value

    def given(self, field: str) -> bool:
        """Whether it is there and not null."""
        return self.config.get(field) is not None

    def flag(self, field: str, default: bool) -> bool:
        """True or false."""
        value = self.config.get(field)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise ValueError(f"{self.name}: {field} is {value!r:.40}: give true or false")
        return value

    def numbers(self, field: str) -> frozenset[int]:
        """A list of whole numbers, none if absent."""
        value = self.config.get(field)
        value = [] if value is None else value
        if not isinstance(value, list) or not all(type(number) is int for number in value):
            raise ValueError(f"{self.name}: {field} is {value!r:.40}: give a list of whole numbers")
        return frozenset(value)

    def layers(self, field: str = "num_hidden_layers") -> int:
        """How many blocks."""
        return self.size(field, most=MOST_LAYERS)

    def divisor(self, field: str, default: int | None = None, *, of: str) -> int:
        """A whole number that divides another field's without rest."""
        number, whole = self.size(field, default), self.size(of)
        if whole % number:
            raise ValueError(f"{self.name}: {of} {whole} does not divide by {field} {number}")
        return number

    def quotient(self, total: str, parts: str) -> int:
        """The one field by the other, without rest."""
        return self.size(total) // self.divisor(parts, of=total)

    def refuse(self, field: str, counted: Any, *, default: Any) -> None:
        """A ValueError for a variant that is not counted here."""
        value = self.config.get(field, default)
        if value != counted:
            raise ValueError(
                f"{self.name}: {field} {value!r:.40} is not counted, only {counted!r}: give --safetensors"
            )
