"""Files that are whole or not there, whatever ends the writer; what is refused before anything is written."""

import os
import re
import resource
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collectives.files import check_writable, write_whole

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["nameless", "named"])
def folder(request: Any, tmp_path: Path, monkeypatch: Any) -> Path:
    """A directory, on a file system with and without nameless files."""
    if request.param == "named":
        monkeypatch.delattr("os.O_TMPFILE")
    return tmp_path


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_a_file_is_written_and_nothing_beside_it(folder: Path) -> None:
    for text in ("first", "second"):
        check_writable(folder / "file")
        write_whole(folder / "file", [text, "\n"])
        assert (folder / "file").read_text() == f"{text}\n"
        assert [path.name for path in folder.iterdir()] == ["file"]


def test_a_writer_that_fails_leaves_what_was_there(folder: Path) -> None:
    def failing() -> Iterator[str]:
        yield "half"
        raise ArithmeticError

    (folder / "file").write_text("before")
    for name in ("file", "other"):
        with pytest.raises(ArithmeticError):
            write_whole(folder / name, failing())
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert (folder / "file").read_text() == "before"


def test_a_writer_that_is_killed_leaves_what_was_there() -> None:
    program = """
import os, signal
from pathlib import Path
from collectives.files import write_whole

def lines():
    yield "half" * 100_000
    os.kill(os.getpid(), signal.SIGKILL)

write_whole(Path("file"), lines())
"""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:  # has nameless files on every Linux
        folder = Path(place)
        (folder / "file").write_text("before")
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            timeout=60,
        )
        assert done.returncode == -signal.SIGKILL
        assert [path.name for path in folder.iterdir()] == ["file"]
        assert (folder / "file").read_text() == "before"


def test_what_replaces_a_file_has_its_mode_and_a_new_one_follows_the_umask(folder: Path) -> None:
    (folder / "secret").touch(0o600)
    (folder / "open").touch()
    (folder / "open").chmod(0o666)
    before = os.umask(0o027)
    try:
        for name in ("secret", "open", "new"):
            write_whole(folder / name, ["text"])
    finally:
        os.umask(before)
    assert modes(folder) == {"secret": 0o600, "open": 0o666, "new": 0o640}


def test_a_link_stays_and_what_it_points_at_is_replaced(folder: Path) -> None:
    (folder / "there").mkdir()
    (folder / "link").symlink_to("there/file")
    for text in ("new", "replaced"):
        check_writable(folder / "link")
        write_whole(folder / "link", [text])
        assert (folder / "link").is_symlink()
        assert (folder / "there" / "file").read_text() == text


def test_a_name_as_long_as_may_be_can_be_written(folder: Path) -> None:
    path = folder / ("x" * os.pathconf(folder, "PC_NAME_MAX"))
    check_writable(path)
    write_whole(path, ["text"])
    assert path.read_text() == "text"


def refusal(path: Path) -> str:
    before = sorted(path.parent.glob("*"))
    with pytest.raises(OSError, match=re.escape(f"{path}: ")) as caught:
        check_writable(path)
    assert sorted(path.parent.glob("*")) == before
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def test_what_is_no_place_for_a_file_is_refused_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path) == "a directory: name a file in it"
    assert refusal(tmp_path / "pipe") == "a device or a pipe: name a file"
    assert refusal(Path("/dev/null")) == "a device or a pipe: name a file"
    assert refusal(tmp_path / "circle") == (
        "cannot be written (Too many levels of symbolic links): name another file"
    )
    assert refusal(tmp_path / "file" / "in it") == "cannot be written (Not a directory): name another file"
    assert refusal(tmp_path / "no" / "file") == f"there is no directory {tmp_path}/no: make it first"
    assert refusal(tmp_path / ("x" * 300)) == "cannot be written (File name too long): name another file"
    assert refusal(Path("/proc/self/new")).startswith("cannot be written (")  # where nobody makes a file


@pytest.mark.parametrize("stream", [1, 2])
def test_a_file_that_is_printed_to_is_refused(tmp_path: Path, stream: int) -> None:
    """To replace it would take what is printed with it."""
    before = os.dup(stream)
    try:
        with (tmp_path / "printed").open("w") as file:
            os.dup2(file.fileno(), stream)
        assert refusal(tmp_path / "printed").startswith("what is printed goes there")
        assert refusal(Path(f"/dev/fd/{stream}")).startswith("what is printed goes there")
    finally:
        os.dup2(before, stream)
        os.close(before)


def test_a_write_protected_file_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("os.access", lambda path, mode, **_: mode != os.W_OK)  # root may write to any
    assert refusal(tmp_path / "file").startswith("write-protected: name another file")


def test_somebody_elses_file_in_a_sticky_directory_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "file").touch()
    tmp_path.chmod(0o1777)
    check_writable(tmp_path / "file")
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    assert refusal(tmp_path / "file") == f"user {os.getuid()}'s, in a sticky directory: name another file"
    check_writable(tmp_path / "other")
    tmp_path.chmod(0o777)
    check_writable(tmp_path / "file")


def test_a_file_that_grows_too_large_names_the_reason_and_is_gone(folder: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_whole(folder / "file", ["x" * 10_000])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(folder.iterdir()) == []
