"""Algorithms of the caller's own among those to be measured: loaded, and proved for the world size."""

from collections.abc import Sequence

from collectives.algorithms import Algorithm
from collectives.schedule import ScheduleError
from collectives.user_file import is_user_file, load_algorithm
from collectives.verify import verify


def load_own(names: Sequence[str], collectives: Sequence[str], world_size: int) -> dict[str, Algorithm]:
    """Those of ``names`` that mean FILE.py:FUNCTION. ValueError if one cannot be loaded, or is wrong."""
    own = [name for name in names if is_user_file(name)]
    if own and len(collectives) > 1:
        raise ValueError(
            f"which collective is {own[0]} for? Say one --collective, not {', '.join(collectives)}"
        )
    found = {name: load_algorithm(name, collectives[0]) for name in own}
    for algorithm in found.values():
        try:
            verify(algorithm, world_size)
        except ScheduleError as error:
            raise ValueError(str(error)) from error
    return found
