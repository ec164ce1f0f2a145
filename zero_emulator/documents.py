"""What records and other documents are made of."""

from typing import Any

Json = dict[str, Any]
"""An object of JSON: values by the names of the fields."""
