"""An algorithm that a user has written in a file of their own, named as FILE.py:FUNCTION."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from collectives.algorithms import Algorithm, find_algorithm
from collectives.promises import COLLECTIVES


def is_user_file(name: str) -> bool:
    """Whether a name means something in a file, and no algorithm of the table."""
    return ".py:" in name


def load_algorithm(
    name: str, collective: str | None = None, in_order: bool = False, *, say: str = "collective="
) -> Algorithm:
    """What FILE.py:FUNCTION names: an Algorithm, or a generator as `Algorithm.schedule` describes it.

    ``collective``: if None, an Algorithm says it, or the generator's name. ``in_order``: a generator's
    operands are to stand in rank order. ``say``: how whoever has named it says for which collective it is.
    Runs the file. ValueError says in one line what is missing, or what the file raised.
    """
    path, _, attribute = name.rpartition(":")
    found = getattr(_run(Path(path)), attribute, None)
    if found is None:
        raise ValueError(f"{path} has no {attribute!r}: name a function of (rank, world_size) that is in it")
    if isinstance(found, Algorithm):
        return find_algorithm(found, collective or found.collective.name)
    if not callable(found):
        kind = type(found).__name__
        raise ValueError(f"{name} is of type {kind}: name a function of (rank, world_size), or an Algorithm")
    if collective is None and attribute not in COLLECTIVES:
        known = ", ".join(COLLECTIVES)
        raise ValueError(f"what is {name} to do? Its name is none of {known}: say which by {say}")
    collective = collective or attribute
    if collective not in COLLECTIVES:
        raise ValueError(f"no collective {collective!r}: there are {', '.join(COLLECTIVES)}")
    return Algorithm(attribute, COLLECTIVES[collective], found, commutative_only=not in_order)


def _run(path: Path) -> Any:
    if not path.is_file():
        raise ValueError(f"no file {path}")
    spec = importlib.util.spec_from_file_location(f"{path} of the user", path)  # a name that hides no other
    assert spec is not None, "a name that ends in .py has a loader"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the names in their annotations
    sys.path.insert(0, str(path.parent))  # as Python does for a script: the file may import its neighbours
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{path} raises {type(error).__name__}: {error}") from error
    return module
