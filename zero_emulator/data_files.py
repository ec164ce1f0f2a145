"""Reading samples and labels from a .npz or .csv file, with an error that finds the faulty cell."""

import csv
import io
from array import array
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from zero_emulator.npz_files import DataError, brief, open_file, read_npz

__all__ = ["DataError", "read_arrays"]

Arrays: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[Any]]

SHOWN_CHARACTERS = 30


def read_arrays(path: Path) -> Arrays:
    """Samples and labels as the file holds them: any numeric dtype, shapes not yet checked.

    A ``.npz`` holds arrays ``x`` and ``y``. A ``.csv`` holds a sample a line, comma separated, the label in
    the last column; a first line without any number is a header. Nothing is unpickled.

    Raises DataError.
    """
    with open_file(path, ".npz or .csv", ", or leave it out to get the digits") as file:
        read = READERS.get(path.suffix.lower())
        if read is None:
            raise DataError(f"{path}: its name ends in {path.suffix!r}: give a {' or a '.join(READERS)} file")
        return read(path, file)


def _read_npz(path: Path, file: BinaryIO) -> Arrays:
    x, y = read_npz(path, file, lambda names: ("x", "y"), "numpy.savez(x=..., y=...)")
    return x, y


def _read_csv(path: Path, file: BinaryIO) -> Arrays:
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text)
        try:
            table = _table(path, ((reader.line_num, cells) for cells in reader if cells))
        except UnicodeDecodeError as fault:
            raise DataError(f"{path}: not text in UTF-8 ({brief(fault)}): save it as a plain .csv") from None
        except csv.Error as fault:
            line = reader.line_num
            raise DataError(f"{path}: line {line}: {brief(fault)}: save it as a plain .csv") from None
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


READERS: dict[str, Callable[[Path, BinaryIO], Arrays]] = {".npz": _read_npz, ".csv": _read_csv}
