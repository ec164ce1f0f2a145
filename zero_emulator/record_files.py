"""Run records from the files that train and compare write."""

import json
from pathlib import Path
from typing import Any

from zero_emulator.declared import read_declared
from zero_emulator.jobs import COMPARE_SCHEMA
from zero_emulator.record import RUN_SCHEMA
from zero_emulator.recorded import Recorded


def read_records(path: Path) -> dict[str, Recorded]:
    """The runs in a file that train or compare wrote, by strategy; ValueError with its name for any other."""
    try:
        document = _read_json(path)
        schema = document.get("schema")
        if schema == RUN_SCHEMA:
            record = read_declared(Recorded, document, "record")
            return {record.config.strategy: record}
        if schema == COMPARE_SCHEMA:
            return _read_comparison(document)
        raise ValueError(f"schema {schema!r:.60} is neither {RUN_SCHEMA} nor {COMPARE_SCHEMA}")
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{path}: {error}: give a record as train or compare writes it with --record"
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():  # a pipe would wait for its writer
            raise ValueError("no file")
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no JSON, or not all of it ({error})") from error
    if not isinstance(document, dict):
        raise ValueError("holds no JSON object")
    return document


def _read_comparison(document: dict[str, Any]) -> dict[str, Recorded]:
    runs = document.get("runs")
    if not isinstance(runs, dict) or not runs:
        raise ValueError("it has no runs")
    records = {}
    for name, run in runs.items():
        if not isinstance(run, dict) or run.get("schema") != RUN_SCHEMA:
            raise ValueError(f"runs.{name} is not of schema {RUN_SCHEMA}")
        records[name] = read_declared(Recorded, run, f"runs.{name}")
        if records[name].config.strategy != name:
            raise ValueError(f"runs.{name} is of strategy {records[name].config.strategy}")
    return records
