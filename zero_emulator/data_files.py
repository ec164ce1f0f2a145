"""Reading samples and labels from a .npz or .csv file, with an error that finds the faulty cell."""

import csv
import io
from array import array
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

Arrays: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[Any]]

SHOWN_NAMES = 8  # a file of model weights may hold hundreds of arrays, and a message is one line
SHOWN_CHARACTERS = 30


class DataError(ValueError):
    """What is wrong with a data file, in one line that says what to do about it."""


def read_arrays(path: Path) -> Arrays:
    """Samples and labels as the file holds them: any numeric dtype, shapes not yet checked.

    A ``.npz`` holds arrays ``x`` and ``y``. A ``.csv`` holds a sample a line, comma separated, the label in
    the last column; a first line without any number is a header. Nothing is unpickled.

    Raises DataError.
    """
    with _open(path) as file:
        if not file.peek(1):  # type: ignore[attr-defined]  # a buffered reader has it, its abstract type has not
            raise DataError(f"{path}: the file is empty, 0 bytes: give a .npz with x and y, or a .csv")
        read = READERS.get(path.suffix.lower())
        if read is None:
            raise DataError(f"{path}: its name ends in {path.suffix!r}: give a {' or a '.join(READERS)} file")
        return read(path, file)


def _open(path: Path) -> BinaryIO:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would wait for its writer
            raise DataError(f"{path}: a device or a pipe: name a .npz or .csv file")
        return path.open("rb")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file: check the path, or leave it out to get the digits") from None
    except IsADirectoryError:
        raise DataError(f"{path}: a directory: name a .npz or .csv file in it") from None
    except OSError as fault:
        raise DataError(
            f"{path}: cannot be read ({fault.strerror}): check the path and its permissions"
        ) from None


def _read_npz(path: Path, file: BinaryIO) -> Arrays:
    try:
        archive = np.load(file, allow_pickle=False)
    except Exception as fault:  # numpy, zipfile and zlib each have errors of their own for a broken file
        raise DataError(f"{path}: not a .npz file ({_brief(fault)}): write it with numpy.savez") from None
    if isinstance(archive, np.ndarray):
        raise DataError(
            f"{path}: one array of shape {archive.shape}: write two with numpy.savez(x=..., y=...)"
        )
    missing = [name for name in ("x", "y") if name not in archive.files]
    if missing:
        names = ", ".join(repr(name) for name in archive.files[:SHOWN_NAMES])
        more = ", ..." if len(archive.files) > SHOWN_NAMES else ""
        raise DataError(
            f"{path}: no array {' and no array '.join(missing)} among {len(archive.files)} [{names}{more}]: "
            "write them with numpy.savez(x=..., y=...)"
        )
    return _member(path, archive, "x"), _member(path, archive, "y")


def _member(path: Path, archive: Any, name: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(archive[name])
    except Exception as fault:  # as above, and object arrays, which only unpickling would read
        raise DataError(
            f"{path}: array {name} cannot be read ({_brief(fault)}): write it again as an array of numbers"
        ) from None


def _read_csv(path: Path, file: BinaryIO) -> Arrays:
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text)
        try:
            table = _table(path, ((reader.line_num, cells) for cells in reader if cells))
        except UnicodeDecodeError as fault:
            raise DataError(f"{path}: not text in UTF-8 ({_brief(fault)}): save it as a plain .csv") from None
        except csv.Error as fault:
            line = reader.line_num
            raise DataError(f"{path}: line {line}: {_brief(fault)}: save it as a plain .csv") from None
    if table.shape[1] < 2:
        raise DataError(f"{path}: {table.shape[1]} column: give the inputs, then the label, comma separated")
    return table[:, :-1], table[:, -1]


def _table(path: Path, rows: Iterable[tuple[int, list[str]]]) -> npt.NDArray[np.float64]:
    values = array("d")  # 8 bytes a cell; a list of floats takes four times that
    num_columns = first_line = 0
    for line, cells in rows:
        if not first_line:
            num_columns, first_line = len(cells), line
            if not any(map(_is_number, cells)):
                continue  # a header
        if len(cells) != num_columns:
            raise DataError(
                f"{path}: line {line} has {len(cells)} columns, line {first_line} has {num_columns}: "
                "give every line the same number"
            )
        try:
            values.extend(map(float, cells))
        except ValueError:
            raise DataError(f"{path}: line {line}, {_text_among(cells)}") from None
    if not values:
        raise DataError(f"{path}: 0 samples below a header of {num_columns} columns: add a line for each")
    return np.array(values).reshape(-1, num_columns)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _text_among(cells: list[str]) -> str:
    column, text = next((at, cell) for at, cell in enumerate(cells, start=1) if not _is_number(cell))
    if not text.strip():
        return f"column {column}: an empty cell: fill it with a number or leave the line out"
    shown = repr(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "...")
    if ";" in text or "\t" in text:
        return f"column {column}: {shown} is not a number: separate the columns with commas"
    if column == len(cells):
        return f"column {column}: the label {shown} is not a number: number the classes from 0"
    return f"column {column}: {shown} is not a number: put one there (a header has none at all)"


def _brief(fault: Exception) -> str:
    return " ".join(str(fault).split()) or type(fault).__name__


READERS: dict[str, Callable[[Path, BinaryIO], Arrays]] = {".npz": _read_npz, ".csv": _read_csv}
