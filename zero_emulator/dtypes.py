"""NumPy dtypes by name, bfloat16 among them, and adding across them."""

from typing import Any

import ml_dtypes
import numpy as np

from zero_emulator.layout import Array


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of that name; NumPy itself has no bfloat16."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def add_into(target: Array, source: Array, *, replace: bool) -> None:
    """``target += source``, or ``target = source``: in the wider of the two dtypes, rounded once.

    Nothing happens if they are the same memory. Temporaries are NumPy's own fixed buffers.
    """
    if target is source:
        return
    if replace:
        target[...] = source
    else:
        np.add(target, source, out=target, casting="unsafe")
