"""Files that are whole or not there."""

import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path
from typing import BinaryIO

NEW_FILE = 0o666  # less the umask
OUR_STREAMS = (1, 2)


def write_whole(path: Path, lines: Iterable[str | bytes]) -> None:
    """Write a file, text as UTF-8, flush it to the disk, and put it in place at once.

    If anything fails, what stood at ``path`` before is still there, and nothing else is. A link stays
    one: what it points at is replaced. What replaces a file has its mode.

    Until it is complete the file has no name, and a writer that is killed leaves nothing. But a name can
    be given only if it is free: between the last two calls the file has one beside ``path``, and where
    the file system lacks nameless files it has that one from the start.
    """
    place = _followed(path)
    with _unfinished(place.parent) as (file, name):
        file.writelines(line.encode() if isinstance(line, str) else line for line in lines)
        file.flush()
        with suppress(FileNotFoundError):
            os.fchmod(file.fileno(), stat.S_IMODE(place.stat().st_mode))
        os.fsync(file.fileno())
        if not name.exists():
            # An absolute path needs no src_dir_fd, but without one Python would not follow this link.
            os.link(f"/proc/self/fd/{file.fileno()}", name, src_dir_fd=file.fileno())
        os.replace(name, place)


def check_writable(path: Path) -> None:
    """Raise OSError now, in one line, if ``write_whole`` could not or should not write there later."""
    try:
        refusal = _refusal(path)
    except OSError as error:
        refusal = f"cannot be written ({error.strerror}): name another file"
    if refusal is not None:
        raise OSError(f"{path}: {refusal}")


def check_apart(files: Mapping[str, Path | None]) -> None:
    """ValueError where two options name one file, which the later would replace."""
    named = [(option, path) for option, path in files.items() if path is not None]
    for (option, path), (other, second) in combinations(named, 2):
        if path.resolve() == second.resolve():
            raise ValueError(f"{option} and {other} are both {path}: name two files")


def _refusal(path: Path) -> str | None:
    folder = _followed(path).parent
    try:
        standing = path.stat()
    except FileNotFoundError:
        if not folder.is_dir():
            return f"there is no directory {folder}: make it first"
    else:
        if stat.S_ISDIR(standing.st_mode):
            return "a directory: name a file in it"
        if not stat.S_ISREG(standing.st_mode):  # a file in its place would take /dev/null from everybody
            return "a device or a pipe: name a file"
        if _is_printed_to(standing):
            return "what is printed goes there, and would be replaced: name another file"
        if not os.access(path, os.W_OK, effective_ids=True):
            return "write-protected: name another file, or change its mode"
        # In a sticky directory, as /tmp is one, nobody else may replace a file.
        about = folder.stat()
        if about.st_mode & stat.S_ISVTX and os.geteuid() not in (0, standing.st_uid, about.st_uid):
            return f"user {standing.st_uid}'s, in a sticky directory: name another file"
    with _unfinished(folder):
        return None


def _followed(path: Path) -> Path:
    """Where links lead; in a circle of them, for which ``resolve`` raises RuntimeError, somewhere."""
    return Path(os.path.realpath(path))


def _is_printed_to(standing: os.stat_result) -> bool:
    for stream in OUR_STREAMS:
        with suppress(OSError):  # closed
            if os.path.samestat(standing, os.fstat(stream)):
                return True
    return False


@contextmanager
def _unfinished(folder: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A new file in ``folder``, and a name there that it has or can be given; nothing is left of it."""
    name = folder / f".unfinished-{secrets.token_hex(8)}"
    try:
        with open(_nameless(folder, name), "wb") as file:
            yield file, name
    finally:
        name.unlink(missing_ok=True)


def _nameless(folder: Path, name: Path) -> int:
    """The descriptor of a new file without a name or, where that cannot be, with this one."""
    try:
        if os.path.isdir("/proc/self/fd"):  # where it can be given a name from
            return os.open(folder, os.O_WRONLY | os.O_TMPFILE, NEW_FILE)
    except (AttributeError, OSError):  # another system, or a file system that lacks them
        pass
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, NEW_FILE)
