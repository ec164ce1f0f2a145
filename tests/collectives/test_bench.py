"""What `collectives bench` measures is right: arrays, checks, times, figures, files."""

import csv
import io
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from collectives.bench.contender import Contender, our_contender
from collectives.bench.copy_limit import beyond_cache, copy_bandwidth
from collectives.bench.figures import Figures, ratio_of_pairs
from collectives.bench.files import csv_text
from collectives.bench.measure import Samples, measure, meeting
from collectives.bench.plot import plot
from collectives.bench.report import Report
from collectives.bench.sizes import parse_sizes
from collectives.bench.subjects import APART, SUBJECTS, TOGETHER
from collectives.bench.trials import Trial
from collectives.bench.tune import best_choices
from collectives.bench.values import Values
from collectives.choice import Choice
from collectives.communicator import Communicator
from collectives.operators import find_operator
from collectives.transports.base import Transport
from collectives.transports.threads import run_threads

PLACED = [(name, placement) for name, subject in SUBJECTS.items() for placement in subject.placements]
DUE_ON_RANK_0 = [one for one in PLACED if one[0] not in ("barrier", "exscan")]


def make_trial(comm: Communicator, collective: str, placement: str, dtype: str, operator: str) -> Trial:
    values = Values(comm.world_size, dtype, find_operator(operator))
    return SUBJECTS[collective].placements[placement](values, comm.rank, 300)


@pytest.mark.few_sizes
@pytest.mark.parametrize(("collective", "placement"), PLACED)
def test_a_right_result_has_nothing_wrong_and_none_has_all(
    run_ranks, collective: str, placement: str
) -> None:
    def body(comm: Communicator) -> None:
        for dtype, operator in (("float32", "sum"), ("bfloat16", "max"), ("uint8", "prod")):
            trial = make_trial(comm, collective, placement, dtype, operator)
            one = our_contender(comm, collective, trial, operator, "auto", "auto")
            for _ in range(2):
                trial.reset()
                one.run()
                assert trial.count_wrong() == 0
            trial.reset()
            if placement == APART:  # in place, what is given may be part of what is due
                assert trial.count_wrong() == sum(place.size for place, _ in trial.due)

    run_ranks(body)


@pytest.mark.parametrize(("collective", "placement"), PLACED)
def test_some_rank_is_wrong_until_it_has_called(collective: str, placement: str) -> None:
    def body(comm: Communicator) -> int:
        trial = make_trial(comm, collective, placement, "float32", "sum")
        trial.reset()
        return trial.count_wrong()

    assert collective == "barrier" or sum(on_two_ranks(body)) >= 290


@pytest.mark.parametrize("operator", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"])
def test_results_are_exact_in_every_order(dtype: str, operator: str) -> None:
    values = Values(8, dtype, find_operator(operator))
    rows = [values.given(rank, 600) for rank in range(8)]
    backwards = rows[7].copy()
    for row in rows[6::-1]:
        values.operator.combine(backwards, row, out=backwards)
    assert np.isfinite(backwards.astype(float)).all()
    assert (backwards[300:] == values.reduced(300, 300)).all()


def test_no_block_looks_like_another() -> None:
    values = Values(8, "float32", find_operator("sum"))
    rows = [values.given(rank, 2048) for rank in range(8)]
    for one in range(8):
        assert all((rows[one] != rows[other]).all() for other in range(one))
        assert (rows[one][:1024] != rows[one][1024:]).all()


def on_two_ranks(body: Callable[[Communicator], Any]) -> list[Any]:
    return run_threads(2, lambda transport: body(Communicator(transport, check=False)))


def spoiled(one: Contender, rank: int, spoil: Callable[[Trial], None]) -> Contender:
    """The same, but after it has run ``spoil`` changes its arrays on rank 0."""

    def run() -> None:
        one.run()
        if rank == 0:
            spoil(one.trial)

    return replace(one, run=run)


def an_element(trial: Trial) -> None:
    trial.due[0][0][7] += 1


def a_shift(trial: Trial) -> None:
    place = trial.due[0][0]
    place[:] = np.roll(place, 1)


@pytest.mark.parametrize(("collective", "placement"), DUE_ON_RANK_0)
@pytest.mark.parametrize(("spoil", "least", "most"), [(an_element, 1, 1), (a_shift, 290, 600)])
def test_what_an_algorithm_gets_wrong_is_counted_in_every_round(
    collective: str, placement: str, spoil: Callable[[Trial], None], least: int, most: int
) -> None:
    def body(comm: Communicator) -> list[Samples]:
        trial = make_trial(comm, collective, placement, "float32", "sum")
        good = our_contender(comm, collective, trial, "sum", "auto", "auto")
        bad = spoiled(good, comm.rank, spoil)
        return measure([good, bad], comm.transport, meeting(comm), rounds=2, warmup=1)

    right, found = on_two_ranks(body)[1]
    assert right.wrong == 0
    assert 3 * least <= found.wrong <= 3 * most


def test_a_call_that_does_nothing_is_wrong_everywhere() -> None:
    def body(comm: Communicator) -> list[Samples]:
        trial = make_trial(comm, "all_gather", APART, "float32", "sum")
        lazy = Contender("lazy", "lazy", lambda: None, trial, sent=10 + comm.rank)
        return measure([lazy], comm.transport, meeting(comm), rounds=2, warmup=0)

    [samples] = on_two_ranks(body)[0]
    assert samples.wrong == 2 * 2 * 600  # rounds, ranks, elements
    assert samples.sent == 11


def test_a_call_lasts_until_its_slowest_rank_is_done() -> None:
    def body(comm: Communicator) -> list[Samples]:
        trial = Trial(np.empty(0), np.empty(0), (), ())
        slow = Contender("slow", "slow", lambda: time.sleep(0.05 * comm.rank), trial)
        quick = Contender("quick", "quick", lambda: None, trial)
        return measure([slow, quick], comm.transport, meeting(comm), rounds=3, warmup=1)

    slow, quick = on_two_ranks(body)[0]
    assert len(slow.seconds) == len(quick.seconds) == 3
    assert min(slow.seconds) >= 0.05
    assert min(quick.seconds) < 0.05
    assert ratio_of_pairs(slow.seconds, quick.seconds) > 1
    assert slow.sent is None


def test_who_runs_first_alternates() -> None:
    order = []

    def body(comm: Communicator) -> None:
        trial = Trial(np.empty(0), np.empty(0), (), ())
        both = [Contender(name, name, lambda name=name: order.append(name), trial) for name in "ab"]
        measure(both, comm.transport, meeting(comm), rounds=2, warmup=1)

    run_threads(1, lambda transport: body(Communicator(transport)))
    assert order == ["a", "b", "b", "a", "a", "b"]


def test_the_bytes_of_the_busiest_rank_are_counted() -> None:
    def body(comm: Communicator) -> int | None:
        trial = make_trial(comm, "all_reduce", APART, "float32", "sum")
        return our_contender(comm, "all_reduce", trial, "sum", "ring", "ring").sent

    assert on_two_ranks(body) == [1200, 1200]  # two halves of 300 floats


def test_copies_are_larger_than_every_cache(tmp_path: Path) -> None:
    for number, size in enumerate(["48K", "2048K", "105M"]):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(f"{size}\n")
    assert beyond_cache(tmp_path) == 420 << 20
    assert beyond_cache(tmp_path / "none") == 64 << 20


def test_the_copy_limit_is_alike_on_all_ranks() -> None:
    def body(comm: Communicator) -> float:
        return copy_bandwidth(comm.transport, meeting(comm), 1 << 20)

    one, other = on_two_ranks(body)
    assert one == other > 0


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("4K", [4096]),
        ("4K-32K", [4096, 8192, 16384, 32768]),
        ("1-9", [1, 2, 4, 8]),
        ("1M,4KiB", [1 << 20, 4096]),
    ],
)
def test_sizes_are_read_as_nccl_tests_reads_them(text: str, sizes: list[int]) -> None:
    assert parse_sizes(text, 2) == sizes


@pytest.mark.parametrize("text", ["", "4X", "0", "-4K", "32M-4K", "4K-", "4.5K", "9999999999999G"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_sizes(text, 2)


def figures(algorithm: str, num_bytes: int, seconds: float, **others: Any) -> Figures:
    given = {
        "collective": "all_gather", "placement": APART, "num_bytes": num_bytes,
        "count": num_bytes // 8, "dtype": "float32", "operator": None, "algorithm": algorithm,
        "ran": algorithm, "seconds": seconds, "seconds_p99": 2 * seconds, "algorithm_bandwidth": 1e9,
        "bus_bandwidth": 5e8, "of_copy_limit": 0.25, "over_mpi": None, "wrong": 0, "sent": 7,
    }  # fmt: skip
    return Figures(**(given | others))


MEASURED = [
    figures("bruck", 1024, 1.0),
    figures("ring", 1024, 2.0),
    figures("mpi", 1024, 0.5),
    figures("ring", 1024, 0.1, placement=TOGETHER),
    figures("bruck", 4096, 2.0),
    figures("auto", 4096, 1.9, ran="bruck"),
    figures("ring", 4096, 2.1),
    figures("bruck", 8192, 3.0),
    figures("ring", 8192, 2.9),
    figures("ring", 8192, 1.0, collective="all_reduce"),
]


def test_a_table_takes_the_quickest_of_ours_at_each_size() -> None:
    assert best_choices(MEASURED, 4) == [
        Choice("all_gather", 4, 4, 8191, "bruck"),
        Choice("all_gather", 4, 4, None, "ring"),
        Choice("all_reduce", 4, 4, None, "ring"),
    ]


def test_a_wrong_result_is_no_choice_and_a_collective_in_place_alone_has_one() -> None:
    found = [
        figures("quick", 1024, 1.0, wrong=1),
        figures("slow", 1024, 2.0),
        figures("binomial", 1024, 1.0, collective="broadcast", placement=TOGETHER),
    ]
    assert best_choices(found, 4) == [
        Choice("all_gather", 4, 4, None, "slow"),
        Choice("broadcast", 4, 4, None, "binomial"),
    ]


def test_a_csv_has_a_row_for_each_line_of_figures() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(MEASURED))))
    assert [row["algorithm"] for row in rows] == [one.algorithm for one in MEASURED]
    assert float(rows[0]["seconds"]) == 1.0
    assert rows[0]["operator"] == rows[0]["over_mpi"] == ""


def test_every_line_of_the_report_stands_under_its_head() -> None:
    report = Report(["ring", "star.py:star", "auto: bruck"])
    _, head, units = report.head().splitlines()
    lines = [
        report.line([figures("ring", 4096, 1e-5), figures("ring", 4096, 1e-5, placement=TOGETHER)]),
        report.line([figures("mpi", 1 << 30, 1.5, over_mpi=1.0, sent=None, placement=TOGETHER)]),
        report.line([figures("auto", 4096, 1e-5, ran="bruck")]),
        report.line([figures("star.py:star", 4096, 1e-5, ran="star")]),
    ]
    for line in lines:
        assert len(line) == len(head)
        cells = line.replace(": ", ":").split()
        assert len(cells) == len(head.split()) == 4 + 1 + 7 + 7 + 1
    assert lines[0].split()[5:12] == ["10.0", "20.0", "1.00", "0.50", "25%", "-", "0"]
    assert lines[1].split()[5:12] == ["-"] * 7
    assert "  auto: bruck   " in lines[2]
    assert "  star.py:star   " in lines[3]
    assert units.split()[-1] == "(B)"


def test_a_picture_has_a_panel_a_collective_and_a_line_an_algorithm(monkeypatch) -> None:
    drawn: list[tuple[int, list[int], list[float], str]] = []

    class Panel:
        def __init__(self, number: int) -> None:
            self.number = number

        def plot(self, sizes: list[int], speeds: list[float], style: str, **how: str) -> None:
            drawn.append((self.number, sizes, speeds, how["label"]))

        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *_, **__: None

    class Figure:
        def __init__(self, **_: Any) -> None: ...

        def subplots(self, rows: int, columns: int, **_: Any) -> list[list[Panel]]:
            return [[Panel(number) for number in range(columns)]]

        def savefig(self, file: io.BytesIO, **how: Any) -> None:
            file.write(how["format"].encode())

    stub: Any = ModuleType("matplotlib.figure")
    stub.Figure = Figure
    monkeypatch.setitem(sys.modules, "matplotlib", ModuleType("matplotlib"))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", stub)
    assert plot(MEASURED, 2e9, ".png") == b"png"
    assert (0, [1024, 4096, 8192], [0.5, 0.5, 0.5], "bruck, out-of-place") in drawn
    assert [(panel, label) for panel, *_, label in drawn if panel] == [(1, "ring, out-of-place")]
    assert len(drawn) == 6


def test_ranks_of_any_transport_measure_alike() -> None:
    """Every rank has the samples of all, so that all choose alike."""

    def body(transport: Transport) -> list[Samples]:
        comm = Communicator(transport, check=False)
        trial = make_trial(comm, "all_gather", TOGETHER, "int32", "sum")
        ring = our_contender(comm, "all_gather", trial, "sum", "ring", "ring")
        return measure([ring], transport, meeting(comm), rounds=2, warmup=0)

    first, *others = run_threads(3, body)
    assert all(other == first for other in others)
