"""From where in the user's program a call has come."""

import contextlib
import sys
from pathlib import Path

_BETWEEN = str(Path(__file__).parent), contextlib.__file__
"""Files whose frames lie between a user's call and the question where it has come from."""


def call_site() -> str:
    """FILE:LINE of the innermost frame of somebody else's."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_BETWEEN) and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
