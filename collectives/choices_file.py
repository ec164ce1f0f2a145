"""A table of choices in a file, as `collectives bench --tune` writes it and COLLECTIVES_CHOICES names it."""

import json
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from collectives.algorithms import find_algorithm
from collectives.choice import BUILT_IN, Choice

VARIABLE = "COLLECTIVES_CHOICES"
SCHEMA = "collectives-choices/1"


def choices_in_use() -> Sequence[Choice]:
    """The lines of the file that COLLECTIVES_CHOICES names, before those that are built in.

    ValueError says in one line what is wrong with the file. It is read once.
    """
    path = os.environ.get(VARIABLE)
    return _before_built_in(path) if path else BUILT_IN


@lru_cache(maxsize=1)
def _before_built_in(path: str) -> Sequence[Choice]:
    return *read_choices(path), *BUILT_IN


def choices_text(choices: Sequence[Choice]) -> str:
    """The file, as text."""
    return (
        json.dumps({"schema": SCHEMA, "choices": [choice._asdict() for choice in choices]}, indent=1) + "\n"
    )


def read_choices(path: str) -> tuple[Choice, ...]:
    """The lines of such a file; ValueError says in one line what is wrong with it."""
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe would wait for its writer
        raise ValueError(f"{VARIABLE}={path} is no file: name another, or unset it")
    try:
        document = json.loads(Path(path).read_bytes())
    except OSError as error:
        refusal = f"{VARIABLE}={path} cannot be read ({error.strerror}): name another, or unset it"
        raise ValueError(refusal) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON ({error}): write it with collectives bench --tune") from None
    try:
        return tuple(_choices(document))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _choices(document: Any) -> Iterator[Choice]:
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"its schema is not {SCHEMA}: write it with collectives bench --tune")
    lines = document.get("choices")
    if not isinstance(lines, list):
        raise ValueError("its choices are no list: write it with collectives bench --tune")
    for number, line in enumerate(lines):
        if not isinstance(line, dict) or line.keys() != set(Choice._fields):
            raise ValueError(f"choice {number} is to have the fields {', '.join(Choice._fields)}")
        choice = Choice(**line)
        for field, least in (("least_ranks", 0), ("most_ranks", 1), ("up_to_bytes", 0)):
            bound = line[field]
            if not (type(bound) is int and bound >= least) and (bound is not None or field == "least_ranks"):
                wrong = f"choice {number} has {field} {bound!r}"
                raise ValueError(f"{wrong}: give a whole number, {least} or more")
        try:
            find_algorithm(choice.algorithm or "", choice.collective)  # of None it would take the first
        except ValueError as error:
            raise ValueError(f"choice {number}: {error}") from None
        yield choice
