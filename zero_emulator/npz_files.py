"""Arrays from a .npz file, with an error of one line for whatever is wrong with it. Nothing is unpickled."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

SHOWN_NAMES = 8  # a file of model weights may hold hundreds of arrays, and a message is one line


class DataError(ValueError):
    """What is wrong with a file of numbers, in one line that says what to do about it."""


def open_file(path: Path, kind: str, otherwise: str = "") -> BinaryIO:
    """The file, open and not empty. ``kind`` and ``otherwise`` complete the advice of a DataError."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would wait for its writer
            raise DataError(f"{path}: a device or a pipe: name a {kind} file")
        file = path.open("rb")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file: check the path{otherwise}") from None
    except IsADirectoryError:
        raise DataError(f"{path}: a directory: name a {kind} file in it") from None
    except OSError as fault:
        raise DataError(
            f"{path}: cannot be read ({fault.strerror}): check the path and its permissions"
        ) from None
    if not file.peek(1):
        file.close()
        raise DataError(f"{path}: the file is empty, 0 bytes: name a {kind} file")
    return file


def read_npz(
    path: Path, file: BinaryIO, wanted: Callable[[Sequence[str]], Sequence[str]], writer: str
) -> list[npt.NDArray[Any]]:
    """The arrays that ``wanted`` names, of those whose names it is given; DataError where one is missing.

    ``writer`` is what makes such a file.
    """
    start = file.read(6)
    if not start.startswith((b"PK\3\4", b"PK\5\6", b"\x93NUMPY")):  # numpy would talk of pickles
        raise DataError(f"{path}: not a .npz file (it starts with {start!r}): write it with {writer}")
    file.seek(0)
    try:
        archive = np.load(file, allow_pickle=False)
    except Exception as fault:  # numpy, zipfile and zlib each have errors of their own for a broken file
        raise DataError(f"{path}: not a .npz file ({brief(fault)}): write it with {writer}") from None
    if isinstance(archive, np.ndarray):
        raise DataError(f"{path}: one array of shape {archive.shape}: write two or more with {writer}")
    names = wanted(archive.files)
    missing = [name for name in names if name not in archive.files]
    if missing:
        there = ", ".join(repr(name) for name in archive.files[:SHOWN_NAMES])
        more = ", ..." if len(archive.files) > SHOWN_NAMES else ""
        raise DataError(
            f"{path}: no array {' and no array '.join(missing[:SHOWN_NAMES])} among {len(archive.files)} "
            f"[{there}{more}]: write them with {writer}"
        )
    return [_member(path, archive, name) for name in names]


def _member(path: Path, archive: Any, name: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(archive[name])
    except Exception as fault:  # as above, and object arrays, which only unpickling would read
        raise DataError(
            f"{path}: array {name} cannot be read ({brief(fault)}): write it again as an array of numbers"
        ) from None


def brief(fault: Exception) -> str:
    """What a fault says, in one line."""
    return " ".join(str(fault).split()) or type(fault).__name__
