"""The run record, the event log and what a person reads: their numbers, and that they agree."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectives.transports.threads import run_threads
from zero_emulator.claims_report import notes_on_claims
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.jobs import Job
from zero_emulator.outputs import Outputs
from zero_emulator.record import Json
from zero_emulator.report import describe_comparison, describe_run
from zero_emulator.theory import PLAIN

KINDS = ("training", "control", "audit")


@pytest.fixture
def job(toy: Dataset, settings: dict[str, Any], tmp_path: Path, capsys: Any) -> Any:
    """Run a command's job on threads; its exit code, its document and its events."""

    def job(command: str = "train", ranks: int = 3, **chosen: Any) -> tuple[int, Json, list[Json]]:
        record, events = tmp_path / "record.json", tmp_path / "events.jsonl"
        what = Job(RunConfig(**settings | chosen), toy, "threads", Outputs(record, events, quiet=True))
        codes = run_threads(ranks, getattr(what, command))
        assert len(set(codes)) == 1
        lines = [json.loads(line, parse_constant=refuse) for line in events.read_text().splitlines()]
        return codes[0], json.loads(record.read_text(), parse_constant=refuse), lines

    return job


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_a_record_has_the_fields_that_others_read(job: Any) -> None:
    code, record, _ = job(strategy="zero3", hidden=(4, 3))
    assert code == 0
    assert list(record) == [
        "schema", "config", "environment", "num_params", "world_size", "layers", "grid", "rank_params",
        "block_sizes", "iterations", "gradient_audit", "gathers_a_layer", "persistent", "peak",
        "gradient_bytes", "reference", "link", "totals", "test_accuracy", "seconds", "faults", "verdict",
    ]  # fmt: skip
    assert record["schema"] == "zero-emulator/run/4"
    assert RunConfig(**record["config"] | {"hidden": (4, 3), "algorithm": (), "offload": ()}) == RunConfig(
        strategy="zero3", hidden=(4, 3), iterations=2, batch_size=11, lr=0.02, dtype="float64"
    )
    assert {"python", "transport", "numpy", "mpi4py", "mpi_library", "data", "hosts"} <= set(
        record["environment"]
    )
    assert (record["num_params"], record["world_size"]) == (51, 3)
    assert record["layers"][0] == [
        {"name": "weight", "shape": [5, 4], "padding": 0},
        {"name": "bias", "shape": [4], "padding": 0},
    ]
    assert record["block_sizes"] == [[8, 8, 8], [5, 5, 5], [4, 4, 4]]
    assert record["gradient_audit"] is False
    assert record["gathers_a_layer"] == 2
    assert record["persistent"] == [{"weight": 17 * 8, "gradient": 17 * 8, "moment": 2 * 17 * 8}] * 3
    # In the last backward, on 3 or 4 rows: the view and the gradient of layer 0, that of layer 1 on its way,
    # the outputs of layer 0, their gradient before and after the ReLU, and the rows with their labels.
    assert record["peak"] == [
        {
            "total": sum(by_kind.values()),
            "expected": sum(by_kind.values()),
            "by_kind": by_kind,
            "iteration": 1,
            "phase": "backward",
            "layer": 0,
        }
        for rows in (4, 4, 3)
        for by_kind in [
            {
                "weight": 17 * 8,
                "gradient": 17 * 8,
                "moment": 2 * 17 * 8,
                "view": 24 * 8,
                "buffer": (24 + 15 + 5) * 8,
                "activation": rows * 3 * 4 * 8,
                "input": rows * (5 + 1) * 8,
            }
        ]
    ]
    assert 0 <= record["test_accuracy"] <= 1
    assert record["seconds"] > 0
    assert (record["faults"], record["verdict"]) == ([], "pass")
    assert [one["iteration"] for one in record["iterations"]] == [1, 2]
    for one in record["iterations"]:
        assert set(one) == {
            "iteration", "loss", "skipped", "traffic", "experts", "multiple", "digests", "identical",
        }  # fmt: skip
        assert one["multiple"] == [3, 3]
        assert one["identical"] is True
        assert len(one["digests"]) == 3
        assert len(set(one["digests"])) == 1
        for rank, traffic in enumerate(one["traffic"]):
            # f(3) Ψ of doubles is 34 · 8 = 272 bytes.
            assert traffic["rank"] == rank
            assert traffic["sent"] == {"all_gather": 544, "reduce_scatter": 272} == traffic["received"]
            assert traffic["sent_by_phase"] == {"forward": 272, "backward": 544}
            assert traffic["expected_sent"] == 816
            # 10 calls, and in iteration 1 the digest's, are checked with records of 128 bytes; 3 versions.
            assert traffic["control_sent"] == 2 * (11 * 128 + 3 * 8) + (one["iteration"] == 2) * 3 * 2 * 128
            assert traffic["audit_sent"] == 2 * 16 + (one["iteration"] == 2) * 272  # the last one gathers


def test_a_record_says_where_the_padding_lies(job: Any) -> None:
    _, record, _ = job(strategy="ddp", padding="rows", hidden=(4,))
    assert [[tensor["padding"] for tensor in layer] for layer in record["layers"]] == [[4, 2], [6, 0]]
    assert record["block_sizes"] == [[10, 10, 10], [7, 7, 7]]
    assert record["num_params"] == 24 + 15


@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize("more", [{}, {"micro_batches": 2, "keep_views": "last", "prefetch": 2, "clip": 0.1}])
def test_the_event_log_adds_up_to_the_record(job: Any, strategy: str, more: dict[str, Any]) -> None:
    _, record, events = job(strategy=strategy, hidden=(4, 2), audit_every=2, iterations=3, **more)
    sent: Counter[Any] = Counter()
    received: Counter[Any] = Counter()
    phases: Counter[Any] = Counter()
    for event in events:
        assert event["start"] >= 0
        assert event["bytes"] > 0
        sent[event["kind"], event["iteration"], event["sender"], event["collective"]] += event["bytes"]
        received[event["kind"], event["iteration"], event["receiver"], event["collective"]] += event["bytes"]
        phases[event["kind"], event["iteration"], event["sender"], event["phase"]] += event["bytes"]
    for one in record["iterations"]:
        for rank, traffic in enumerate(one["traffic"]):
            where = ("training", one["iteration"], rank)
            assert traffic["sent"] == part(sent, *where)
            assert traffic["received"] == part(received, *where)
            assert traffic["sent_by_phase"] == part(phases, *where)
            assert sum(traffic["sent"].values()) == traffic["expected_sent"]
            for kind in ("control", "audit"):
                assert traffic[f"{kind}_sent"] == sum(part(sent, kind, one["iteration"], rank).values())
    totals: Counter[Any] = Counter()
    for (kind, _, rank, _), num_bytes in sent.items():
        totals[rank, kind] += num_bytes
    assert record["totals"] == [{kind: totals[rank, kind] for kind in KINDS} for rank in range(3)]


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_every_event_of_a_plain_run_is_along_the_axis_of_data(job: Any, optimizer: str) -> None:
    _, _, events = job(strategy="zero1", hidden=(4, 2), optimizer=optimizer)
    assert {event["axis"] for event in events} == {"data"}


def part(sums: Counter[Any], kind: str, iteration: int, rank: int) -> dict[str, int]:
    return {key[3]: total for key, total in sums.items() if key[:3] == (kind, iteration, rank)}


def test_totals_cover_every_iteration_and_whatever_belongs_to_none(job: Any) -> None:
    _, record, _ = job(strategy="zero2", iterations=3)
    for rank, totals in enumerate(record["totals"]):
        traffic = [one["traffic"][rank] for one in record["iterations"]]
        assert totals["training"] == sum(sum(one["sent"].values()) for one in traffic)
        assert totals["control"] >= sum(one["control_sent"] for one in traffic) > 0
        assert totals["audit"] >= sum(one["audit_sent"] for one in traffic) > 0


@pytest.mark.parametrize("strategy", ["zero1", "zero3"])
def test_digests_are_taken_after_every_kth_iteration_and_the_last(job: Any, strategy: str) -> None:
    _, every, _ = job(strategy=strategy, iterations=5)
    _, seldom, _ = job(strategy=strategy, iterations=5, audit_every=2)
    assert [one["digests"] for one in seldom["iterations"]] == [
        one["digests"] if one["iteration"] in (2, 4, 5) else None for one in every["iterations"]
    ]
    assert [one["identical"] for one in seldom["iterations"]] == [None, True, None, True, True]
    assert [one["audit_sent"] > 0 for one in traffic_of(seldom, rank=0)] == [False, True, False, True, True]


def traffic_of(record: Json, rank: int) -> list[Json]:
    return [one["traffic"][rank] for one in record["iterations"]]


def test_one_rank_sends_nothing_and_has_no_multiple(job: Any) -> None:
    code, record, events = job(strategy="zero3", ranks=1)
    assert (code, events) == (0, [])
    assert record["totals"] == [dict.fromkeys(KINDS, 0)]
    assert [one["multiple"] for one in record["iterations"]] == [None, None]
    assert all(one["identical"] for one in record["iterations"])
    assert " - f(N)Ψ" in describe_run(record)
    assert " on 1 rank, " in describe_run(record)


def test_a_loss_that_is_no_number_is_null_and_told(job: Any) -> None:
    code, record, _ = job(strategy="zero1", optimizer="sgd", lr=1e200, iterations=6)
    assert code == 1
    assert record["iterations"][0]["loss"] > 0
    assert record["iterations"][-1]["loss"] is None
    assert record["faults"][0].startswith("iteration 2: the loss is not finite: lower --lr")
    assert "not finite" in describe_run(record)


def test_a_run_whose_last_update_diverges_fails(job: Any) -> None:
    """Every loss is taken before its update, so none sees it."""
    code, record, _ = job(strategy="zero1", optimizer="adam", lr=1e308, iterations=1)
    assert code == 1
    assert record["faults"] == ["the weights after the last update are not all finite: lower --lr, or --clip"]


def test_a_comparison_that_diverges_fails_and_is_valid_json(job: Any) -> None:
    code, document, _ = job("compare", optimizer="sgd", lr=1e200, iterations=6)
    assert code == 1
    assert document["verdict"] == "fail"
    assert document["differences_from_serial"] == dict.fromkeys(PLAIN, None)


def test_a_comparison_holds_all_runs_and_what_sets_them_apart(job: Any) -> None:
    code, document, events = job("compare", micro_batches=2)
    assert code == 0
    assert set(document) == {
        "schema", "runs", "too_large", "differences_from_serial", "loss_differences",
        "gradient_errors", "faults", "verdicts", "agreement", "verdict",
    }  # fmt: skip
    assert document["schema"] == "zero-emulator/compare/4"
    assert list(document["runs"]) == list(PLAIN)
    assert all(record["gradient_audit"] for record in document["runs"].values())
    assert all(record["config"]["strategy"] == name for name, record in document["runs"].items())
    assert all(difference <= 1e-12 for difference in document["differences_from_serial"].values())
    for name, record in document["runs"].items():
        own = [event for event in events if event["strategy"] == name and event["kind"] == "training"]
        assert sum(event["bytes"] for event in own) == sum(rank["training"] for rank in record["totals"])


def test_all_ranks_return_the_code_of_a_file_that_was_not_written(
    toy: Dataset, settings: dict[str, Any], tmp_path: Path
) -> None:
    nowhere = Outputs(tmp_path / "no" / "record.json", quiet=True)
    what = Job(RunConfig(**settings), toy, "threads", nowhere)
    assert run_threads(3, what.train) == [2, 2, 2]


def test_a_description_says_what_was_expected_and_what_was_counted(job: Any) -> None:
    _, record, _ = job(strategy="zero3", ranks=2, hidden=(4, 2))  # layers of 24, 10 and 9
    text = describe_run(record).splitlines()
    assert text[0] == (
        "zero3: 43 parameters on 2 ranks, 2 iterations of 11 samples, 1 micro-batch, adam, float64"
    )
    assert (
        text[2]
        == "  sent an iteration   512..520 bytes a rank, expected 512..520; 2.977..3.023 f(N)Ψ, claim 3Ψ"
    )
    assert text[4] == "  persistent          16.37 bytes a parameter"
    assert text[5] == (
        "  peak                47.26 bytes a parameter: in the backward of layer 0 in iteration 1, "
        "192 view, 272 buffer, 576 activation, 288 input bytes"
    )
    assert text[-1] == "verdict pass"


def test_a_description_ends_with_the_faults(job: Any) -> None:
    _, record, _ = job(strategy="zero3")
    text = describe_run(record | {"verdict": "fail", "faults": ["rank 1 keeps too much"]})
    assert text.splitlines()[-2:] == ["verdict fail", "  rank 1 keeps too much"]


def test_the_peak_and_what_is_in_it_are_of_the_same_rank(job: Any) -> None:
    """The last stage has fewest parameters, and so the most bytes for each; the first has the most bytes."""
    _, record, _ = job(ranks=2, hidden=(40,), pipeline=2)
    first, last = record["peak"]
    own = record["rank_params"][1]
    assert first["total"] > last["total"]
    assert first["total"] / record["rank_params"][0] < last["total"] / own
    (line,) = (one for one in describe_run(record).splitlines() if one.startswith("  peak "))
    assert f" {last['total'] / own:.4g} bytes a parameter: in the {last['phase']} of layer 1 in " in line
    assert f" {last['by_kind']['activation']} activation" in line


def test_what_muon_gathers_is_noted_of_one_strategy_as_of_many() -> None:
    config = asdict(RunConfig(optimizer="muon"))
    for strategies, named in ((["zero3"], "zero3"), (["ddp", "zero1", "zero2"], "zero1, zero2")):
        (note,) = notes_on_claims(config, strategies)
        assert note == f"muon: updates of matrices that ranks share are gathered, too, in {named}"


def test_a_gradient_of_nothing_but_zeros_can_be_compared(settings: dict[str, Any]) -> None:
    x, y = np.zeros((8, 3)), np.arange(8) % 2
    what = Job(
        RunConfig(**settings | {"batch_size": 8}),
        Dataset("even", x, y, x, y, 2),
        "threads",
        Outputs(quiet=True),
    )
    assert run_threads(2, what.compare) == [0, 0]


def test_a_table_has_a_row_for_each_strategy(job: Any) -> None:
    _, document, _ = job("compare")
    model, head, *rows = describe_comparison(document).splitlines()[:6]
    assert model.startswith("51 parameters on 3 ranks, 2 iterations of 11 samples, 1 micro-batch, adam")
    assert head.split()[0] == "strategy"
    assert [row.split()[0] for row in rows] == list(PLAIN)
    assert [row.split()[-1] for row in rows] == ["pass"] * 4
