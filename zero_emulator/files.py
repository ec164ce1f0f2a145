"""Files that are whole or not there."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: Path, lines: Iterable[str]) -> None:
    """Write a text file beside ``path``, flush it to the disk, and put it in place at once.

    If anything fails, what stood at ``path`` before is still there, and nothing else is. A link stays one:
    what it points at is written.
    """
    path = path.resolve()
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def check_writable(path: Path) -> None:
    """Raise OSError now if ``write_whole`` could not write there later."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory: give the name of a file in it")
    if path.exists() and not path.is_file():  # a file in its place would take /dev/null from everybody
        raise OSError(f"{path} is a device or a pipe: give the name of a file")
    place = path.resolve()
    if not place.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no directory {place.parent}: make it first")
    try:
        descriptor, beside = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    except OSError as error:
        raise PermissionError(f"{path} cannot be written ({error.strerror}): name another place") from error
    os.close(descriptor)
    os.unlink(beside)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
