"""What "auto" chooses: within limits, in order where it must be, and from the caller's table first."""

import json
from pathlib import Path
from typing import Any

import pytest

from collectives.algorithms import ALGORITHMS
from collectives.choice import BUILT_IN, Choice, choose
from collectives.choices_file import VARIABLE, choices_in_use, choices_text, read_choices
from collectives.promises import COLLECTIVES

SIZES = (0, 1, 4 << 10, 1 << 16, (1 << 16) + 1, 1 << 20, 1 << 30)


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("commutes", [True, False])
def test_there_is_a_choice_for_every_call_within_its_limits(collective: str, commutes: bool) -> None:
    for world_size in (*range(1, 66), 1000, 1024):
        for size in SIZES:
            chosen = choose(collective, world_size, size, commutes)
            assert chosen is ALGORITHMS[chosen.name, collective]
            assert chosen.limit.allows(world_size)
            assert commutes or not chosen.commutative_only


def test_every_line_of_the_table_names_an_algorithm_and_is_reached() -> None:
    chosen = {
        next(line for line in BUILT_IN if line.fits(collective, ranks, size) and suits(line, ranks, commutes))
        for collective in COLLECTIVES
        for ranks in range(1, 40)
        for size in SIZES
        for commutes in (True, False)
    }
    assert chosen == set(BUILT_IN)


def suits(line: Choice, ranks: int, commutes: bool) -> bool:
    algorithm = ALGORITHMS[line.algorithm, line.collective]
    return algorithm.limit.allows(ranks) and (commutes or not algorithm.commutative_only)


TABLE = (
    Choice("all_gather", 4, 4, 100, "neighbor_exchange"),
    Choice("all_gather", 1, None, 1000, "recursive_doubling"),
    Choice("all_gather", 1, None, None, "ring"),
)


@pytest.mark.parametrize(
    ("ranks", "size", "name"),
    [
        (4, 100, "neighbor_exchange"),
        (4, 101, "recursive_doubling"),
        (8, 100, "recursive_doubling"),
        (5, 100, "ring"),  # no power of two
        (8, 1001, "ring"),
    ],
)
def test_the_first_line_that_fits_is_taken(ranks: int, size: int, name: str) -> None:
    assert choose("all_gather", ranks, size, True, TABLE).name == name


def test_an_operator_that_does_not_commute_gets_no_algorithm_that_reorders() -> None:
    table = (Choice("all_reduce", 1, None, None, "ring"), Choice("all_reduce", 1, None, None, "tree"))
    assert choose("all_reduce", 4, 8, True, table).name == "ring"
    assert choose("all_reduce", 4, 8, False, table).name == "tree"


def test_a_table_without_a_line_that_fits_is_an_error_with_the_numbers() -> None:
    message = "no line of the table is for all_reduce of 8 bytes on 4 ranks, in rank order: name an algorithm"
    with pytest.raises(ValueError, match=message):
        choose("all_reduce", 4, 8, False, (Choice("all_reduce", 1, None, None, "ring"),))


@pytest.fixture
def table_file(monkeypatch: Any, tmp_path: Path) -> Path:
    path = tmp_path / "choices.json"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_the_file_that_the_environment_names_goes_before_the_built_in_table(table_file: Path) -> None:
    table_file.write_text(choices_text(TABLE[:1]))
    assert tuple(choices_in_use()) == (*TABLE[:1], *BUILT_IN)


@pytest.mark.parametrize("value", ["", None])
def test_without_a_file_the_table_is_the_built_in_one(monkeypatch: Any, value: str | None) -> None:
    monkeypatch.setenv(VARIABLE, value) if value is not None else monkeypatch.delenv(VARIABLE, raising=False)
    assert tuple(choices_in_use()) == BUILT_IN


LINE = {
    "collective": "all_gather", "least_ranks": 1, "most_ranks": None, "up_to_bytes": 8, "algorithm": "ring"
}  # fmt: skip


def document(**changed: Any) -> str:
    return json.dumps({"schema": "collectives-choices/1", "choices": [LINE, LINE | changed]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "its schema is not collectives-choices/1: write it with collectives bench --tune"),
        ('{"schema": "collectives-bench/1"}', "its schema is not collectives-choices/1"),
        ('{"schema": "collectives-choices/1", "choices": 3}', "its choices are no list"),
        (document(extra=1), "choice 1 is to have the fields collective, least_ranks, "),
        (document(least_ranks=None), "choice 1 has least_ranks None: give a whole number, 0 or more"),
        (document(most_ranks="4"), "choice 1 has most_ranks '4': give a whole number"),
        (document(up_to_bytes=-1), "choice 1 has up_to_bytes -1: give a whole number"),
        (document(up_to_bytes=True), "choice 1 has up_to_bytes True: give a whole number"),
        (document(algorithm="rung"), "choice 1: no algorithm 'rung' for all_gather: there are ring, "),
        (document(algorithm=["ring"]), r"choice 1: no algorithm \['ring'\] for all_gather"),
        (document(collective="gather_all"), "choice 1: no collective 'gather_all'"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_line(table_file: Path, text: str, message: str) -> None:
    table_file.write_text(text)
    with pytest.raises(ValueError, match=message) as refused:
        choices_in_use()
    assert str(table_file) in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_file_that_is_not_there_is_refused_in_one_line(table_file: Path) -> None:
    with pytest.raises(ValueError, match=f"{VARIABLE}={table_file} cannot be read .No such file"):
        choices_in_use()


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "choices.json"
    path.write_text(choices_text(TABLE))
    assert read_choices(str(path)) == TABLE
