"""What "auto" chooses: within limits, in order where it must be, and from the caller's table first."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectives.algorithms import ALGORITHMS
from collectives.bench.subjects import SUBJECTS
from collectives.bench.values import Values
from collectives.call_check import CallMismatchError
from collectives.choice import BUILT_IN, Choice, choose
from collectives.choices_file import VARIABLE, choices_in_use, choices_text, read_choices
from collectives.communicator import Communicator
from collectives.ledger import Ledger
from collectives.operators import Operator, find_operator
from collectives.promises import COLLECTIVES
from collectives.transports.metered import MeteredTransport

SIZES = (0, 1, 4 << 10, 1 << 16, (1 << 16) + 1, 1 << 20, 1 << 30)


ROOTS_KNOW_MORE = ("gather", "scatter", "all_to_all")
"""Where ranks may know different sizes, or their own alone."""


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("commutes", [True, False])
def test_there_is_a_choice_for_every_call_within_its_limits(collective: str, commutes: bool) -> None:
    for world_size in (*range(1, 66), 1000, 1024):
        for size in (*SIZES, None) if collective in ROOTS_KNOW_MORE else SIZES:
            chosen = choose(collective, world_size, size, commutes)
            assert chosen is ALGORITHMS[chosen.name, collective]
            assert chosen.limit.allows(world_size)
            assert commutes or not chosen.commutative_only
            assert size is not None or chosen.own_sizes


def test_every_line_of_the_table_is_reached() -> None:
    """Cut a table short after any line, and some call that it was for goes elsewhere, or nowhere."""

    def outcome(call: tuple[Any, ...], table: tuple[Choice, ...]) -> str | None:
        try:
            return choose(*call, table).name
        except ValueError:
            return None

    calls = [
        (collective, ranks, size, commutes)
        for collective in COLLECTIVES
        for ranks in (1, 4, 5, 9, 17)
        for size in SIZES
        for commutes in (True, False)
    ]
    for line in BUILT_IN:
        others = tuple(other for other in BUILT_IN if other != line)
        assert any(outcome(call, others) != outcome(call, BUILT_IN) for call in calls), line


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


def test_a_call_of_unknown_size_gets_an_algorithm_that_needs_none_but_a_ranks_own() -> None:
    small = Choice("gather", 1, None, 8, "direct")
    table = (small, Choice("gather", 1, None, None, "binomial"), Choice("gather", 1, None, None, "direct"))
    assert choose("gather", 4, 9, True, table).name == "binomial"
    assert choose("gather", 4, None, True, table).name == "direct"
    with pytest.raises(ValueError, match="for gather of unknown size on 4 ranks"):
        choose("gather", 4, None, True, table[:2])


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
        ("[" * 100_000, "is no JSON"),
        ("[]", "its schema is not collectives-choices/1: write it with collectives bench --tune"),
        ('{"schema": "collectives-bench/1"}', "its schema is not collectives-choices/1"),
        ('{"schema": "collectives-choices/1", "choices": 3}', "its choices are no list"),
        (document(extra=1), "choice 1 is to have the fields collective, least_ranks, "),
        (document(least_ranks=None), "choice 1 has least_ranks None: give a whole number, 0 or more"),
        (document(most_ranks="4"), "choice 1 has most_ranks '4': give a whole number"),
        (document(most_ranks=0), "choice 1 has most_ranks 0: give a whole number, 1 or more"),
        (document(up_to_bytes=-1), "choice 1 has up_to_bytes -1: give a whole number"),
        (document(up_to_bytes=True), "choice 1 has up_to_bytes True: give a whole number"),
        (document(algorithm="rung"), "choice 1: no algorithm 'rung' for all_gather: there are ring, "),
        (document(algorithm=None), "choice 1: no algorithm '' for all_gather: there are ring, "),
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


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused_and_never_waited_for(table_file: Path, make: Any) -> None:
    make(table_file)
    with pytest.raises(ValueError, match=f"{VARIABLE}={table_file} is no file: name another, or unset it"):
        choices_in_use()


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "choices.json"
    path.write_text(choices_text(TABLE))
    assert read_choices(str(path)) == TABLE


@pytest.mark.few_sizes
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_auto_runs_what_the_table_says_and_the_ledger_has_its_name(run_ranks, collective: str) -> None:
    def body(comm: Communicator) -> None:
        values = Values(comm.world_size, "float32", find_operator("sum"))
        for placement in SUBJECTS[collective].placements.values():
            for count in (3, 1 << 17):
                subject = SUBJECTS[collective]
                trial = placement(values, comm.rank, count)
                ledger = Ledger()
                counted = Communicator(MeteredTransport(comm.transport, ledger), check=False)
                trial.reset()
                counted.prepare(collective, trial.input, trial.output, algorithm="auto").run()
                assert trial.count_wrong() == 0
                num_bytes = 0 if subject.empty else subject.num_bytes(count, 4, comm.world_size)
                name = choose(collective, comm.world_size, num_bytes, True).name
                assert {entry.origin.call.algorithm for entry in ledger.entries} <= {name}

    run_ranks(body)


@pytest.mark.ranks(min=2)
@pytest.mark.few_sizes
def test_ranks_with_different_tables_are_told_both_algorithms(run_ranks, monkeypatch) -> None:
    tables: dict[int, tuple[Choice, ...]] = {}
    monkeypatch.setattr("collectives.caller.choices_in_use", lambda: tables[threading.get_ident()])

    def body(comm: Communicator) -> None:
        name = "tree" if comm.rank == comm.world_size - 1 else "rabenseifner"
        tables[threading.get_ident()] = (Choice("all_reduce", 1, None, None, name),)
        work = comm.all_reduce(np.ones(8), np.empty(8), algorithm="auto")
        message = (
            r"rank 0 calls all_reduce\(sum, float64, rabenseifner\).* calls all_reduce\(sum, float64, tree\)"
        )
        with pytest.raises(CallMismatchError, match=message):
            work.wait()

    run_ranks(body)


@pytest.mark.few_sizes
def test_ranks_that_know_their_own_sizes_alone_choose_alike(run_ranks) -> None:
    def body(comm: Communicator) -> None:
        rank, sizes = comm.rank, tuple(range(1, comm.world_size + 1))
        known = sizes if rank == 0 else tuple(size if one == rank else None for one, size in enumerate(sizes))
        output = np.empty(sum(sizes)) if rank == 0 else None
        comm.gather(np.full(rank + 1, rank + 0.5), output, sizes=known, algorithm="auto").wait()
        if output is not None:
            assert output.tolist() == [one + 0.5 for one in range(comm.world_size) for _ in range(one + 1)]

    run_ranks(body)


@pytest.mark.few_sizes
def test_auto_keeps_the_order_of_an_operator_that_does_not_commute(run_ranks) -> None:
    first = Operator("first", lambda left, right, out: np.copyto(out, left), commutative=False)

    def body(comm: Communicator) -> None:
        output = np.empty(40000)
        comm.all_reduce(np.full(40000, float(comm.rank)), output, operator=first, algorithm="auto").wait()
        assert (output == 0).all()

    run_ranks(body)
