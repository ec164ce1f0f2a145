"""A user's own data files, with every fault that one can have, each refused in one line."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from zero_emulator.data_files import DataError, read_arrays

X = np.arange(20.0).reshape(10, 2)
Y = np.arange(10) % 3
LINES = [f"{a},{b},{label}" for (a, b), label in zip(X, Y, strict=True)]


def npz(folder: Path, **arrays: object) -> Path:
    path = folder / "own.npz"
    np.savez(path, **arrays)
    return path


def csv(folder: Path, *lines: str) -> Path:
    path = folder / "own.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_arrays(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    assert refusal(tmp_path / "own.npz").startswith("no such file: check the path")


def test_a_directory_says_so(tmp_path: Path) -> None:
    assert refusal(tmp_path).startswith("a directory: name a .npz or .csv file in it")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "own.csv")
    assert refusal(tmp_path / "own.csv").startswith("a device or a pipe: name a .npz or .csv file")


def test_a_file_without_permission_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = csv(tmp_path, *LINES)

    def refuse(self: Path, *arguments: object, **settings: object) -> None:  # chmod would not stop root
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    assert refusal(path).startswith("cannot be read (Permission denied): check")


def test_a_fault_of_the_disk_names_it(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 100 + ".csv")
    assert refusal(path).startswith("cannot be read (File name too long): check")


@pytest.mark.parametrize("name", ["own.npz", "own.csv"])
def test_an_empty_file_says_so(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert refusal(tmp_path / name).startswith("the file is empty, 0 bytes")


def test_another_kind_of_file_names_the_kinds_there_are(tmp_path: Path) -> None:
    path = tmp_path / "own.xlsx"
    path.write_bytes(b"PK")
    assert refusal(path) == "its name ends in '.xlsx': give a .npz or a .csv file"


@pytest.mark.parametrize("content", [b"hello", b"PK\x03\x04broken", b"PKbroken", b"\x93NUMPY", b"\x80\x04."])
def test_a_file_that_only_claims_to_be_an_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(content)
    message = refusal(path)
    assert message.startswith("not a .npz file (")
    assert "pickle" not in message


def test_a_single_array_is_refused_with_its_shape(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    with path.open("wb") as file:
        np.save(file, X)
    assert refusal(path).startswith("one array of shape (10, 2): write two")


def test_a_damaged_array_is_refused(tmp_path: Path) -> None:
    path = npz(tmp_path, x=X, y=Y)
    content = bytearray(path.read_bytes())
    content[200] ^= 0xFF
    path.write_bytes(content)
    assert refusal(path).startswith("array x cannot be read (Bad CRC-32")


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    assert "array x cannot be read (Object arrays" in refusal(npz(tmp_path, x=np.array([{}] * 10), y=Y))


def test_missing_arrays_are_listed_beside_those_that_exist(tmp_path: Path) -> None:
    assert refusal(npz(tmp_path, x=X, labels=Y)).startswith("no array y among 2 ['x', 'labels']: write")
    many = refusal(npz(tmp_path, **{f"w{i}": X for i in range(300)}))
    assert many.startswith("no array x and no array y among 300 ['w0', 'w1', ")
    assert len(many) < 250


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,oak,0", "line 11, column 2: 'oak' is not a number: "),
        ("1,2,oak", "line 11, column 3: the label 'oak' is not a number: number the classes from 0"),
        ("1,,0", "line 11, column 2: an empty cell: "),
        ("1;2;0,1,1", "line 11, column 1: '1;2;0' is not a number: separate the columns with commas"),
        ('"a\nb",1,1', "line 12, column 1: 'a\\nb' is not a number: "),
        ("x" * 999 + ",1,1", f"line 11, column 1: '{'x' * 30}...' is not a number: "),
        ("1,2", "line 11 has 2 columns, line 1 has 3: give every line the same number"),
        ("1,2,3,", "line 11 has 4 columns, line 1 has 3: give every line the same number"),
        ("y" * 200_000, "line 11: field larger than field limit (131072): save it as a plain .csv"),
    ],
)
def test_a_faulty_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    assert refusal(csv(tmp_path, *LINES, line, *LINES)).startswith(message)


def test_a_first_line_with_a_number_is_no_header(tmp_path: Path) -> None:
    assert refusal(csv(tmp_path, "5.1,3.5,setosa", *LINES)).startswith("line 1, column 3: the label 'setosa'")


def test_a_header_alone_has_no_samples(tmp_path: Path) -> None:
    assert refusal(csv(tmp_path, "width,class")).startswith("0 samples below a header of 2 columns")


def test_a_single_column_has_no_labels(tmp_path: Path) -> None:
    assert refusal(csv(tmp_path, "1", "2")).startswith("1 column: give the inputs, then the label")


def test_a_csv_that_is_not_text_says_so(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_bytes("1,Bäume,2".encode("latin-1"))
    assert refusal(path).startswith("not text in UTF-8 ('utf-8' codec can't decode byte 0xe4")
