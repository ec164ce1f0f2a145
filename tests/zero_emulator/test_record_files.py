"""Reading records back: what is none, or contradicts itself, is refused with field and number."""

import json
import os
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from collectives.transports.threads import run_threads
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.jobs import Job
from zero_emulator.outputs import Outputs
from zero_emulator.record_files import read_records
from zero_emulator.theory import PLAIN

Json = dict[str, Any]

CONFIG = RunConfig(strategy="zero2", hidden=(4,), iterations=2, batch_size=8, padding="even", lr=0.01)


@pytest.fixture(scope="module")
def files(toy: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What train and compare leave of 2 iterations on 2 ranks: run.json and compare.json."""
    place = tmp_path_factory.mktemp("records")
    for command in ("train", "compare"):
        job = Job(CONFIG, toy, "threads", Outputs(place / f"{command}.json", quiet=True))
        assert run_threads(2, getattr(job, command)) == [0, 0]
    return place


@pytest.fixture
def refused(files: Path, tmp_path: Path) -> Callable[..., str]:
    """Why a file is refused, once its document has been changed."""

    def refused(name: str, change: Callable[[Json], object]) -> str:
        document = json.loads((files / name).read_text())
        change(document)
        path = tmp_path / name
        path.write_text(json.dumps(document))
        with pytest.raises(ValueError, match="give a record as train or compare writes it") as refusal:
            read_records(path)
        message = str(refusal.value)
        assert message.startswith(f"{path}: ")
        return message

    return refused


def test_a_run_is_read_back_as_it_was_written(files: Path) -> None:
    (record,) = read_records(files / "train.json").values()
    written = json.loads((files / "train.json").read_text())
    assert record.config == CONFIG
    assert (record.num_params, record.world_size, record.gradient_audit) == (39, 2, False)
    assert [(layout.num_params, layout.size) for layout in record.layouts] == [(24, 24), (15, 16)]
    assert [list(sizes) for sizes in record.block_sizes] == written["block_sizes"] == [[12, 12], [8, 8]]
    assert record.iterations[1].traffic[0].sent == written["iterations"][1]["traffic"][0]["sent"]
    assert [vars(one) for one in record.totals] == written["totals"]


def test_a_comparison_is_its_runs_by_strategy(files: Path) -> None:
    records = read_records(files / "compare.json")
    assert list(records) == list(PLAIN)
    assert all(record.gradient_audit for record in records.values())


def traffic(document: Json) -> Json:
    found: Json = document["iterations"][1]["traffic"][0]
    return found


CHANGES: dict[str, tuple[Callable[[Json], object], str]] = {
    "no schema": (lambda run: run.pop("schema"), "schema None is neither zero-emulator/run/4 nor"),
    "an older schema": (lambda run: run.update(schema="zero-emulator/run/1"), "schema 'zero-emulator/run/1'"),
    "a field less": (lambda run: run.pop("totals"), "record has no totals"),
    "an option less": (lambda run: run["config"].pop("clip"), "record.config has no clip"),
    "options of another type": (
        lambda run: run["config"].update(micro_batches=1.5),
        "record.config.micro_batches is 1.5, not a whole number",
    ),
    "an option unknown": (
        lambda run: run["config"].update(keep_views="some"),
        "record.config.keep_views is 'some', not one of none, last, all",
    ),
    "a strategy unknown": (lambda run: run["config"].update(strategy="zero4"), "--strategy zero4: take one"),
    "a rate beyond floats": (lambda run: run["config"].update(lr=10**400), "too large"),
    "text for bytes": (
        lambda run: traffic(run)["sent"].update(all_gather="12"),
        "record.iterations[1].traffic[0].sent.all_gather is '12', not a whole number",
    ),
    "true for bytes": (
        lambda run: traffic(run).update(audit_sent=True),
        "record.iterations[1].traffic[0].audit_sent is True, not a whole number",
    ),
    "a list for an object": (
        lambda run: traffic(run).update(sent=[1]),
        "record.iterations[1].traffic[0].sent is [1], not an object",
    ),
    "another world size": (lambda run: run.update(world_size=3), "are not 3 blocks of the 24 elements"),
    "a rank less": (
        lambda run: run["iterations"][1]["traffic"].pop(),
        "world_size is 2, and iteration 2 has the traffic of ranks 0",
    ),
    "ranks out of order": (lambda run: run["iterations"][1]["traffic"].reverse(), "of ranks 1, 0"),
    "totals of a rank less": (lambda run: run["totals"].pop(), "world_size is 2, and there are 1 totals"),
    "an iteration less": (lambda run: run["iterations"].pop(), "2 iterations are 1 in the list"),
    "more iterations than there are": (
        lambda run: run["config"].update(iterations=10**12),
        "1000000000000 iterations are 2 in the list",
    ),
    "iterations out of order": (
        lambda run: run["iterations"].reverse(),
        "iteration 2 stands where iteration 1 should",
    ),
    "blocks that are not the layer": (
        lambda run: run["block_sizes"][1].reverse() or run["block_sizes"][1].__setitem__(0, 9),
        "block_sizes[1] [9, 8] are not 2 blocks of the 16 elements",
    ),
    "a block below nothing": (
        lambda run: run["block_sizes"].__setitem__(0, [25, -1]),
        "block_sizes[0] [25, -1] are not 2 blocks of the 24 elements",
    ),
    "blocks of a layer less": (lambda run: run["block_sizes"].pop(), "2 layers have 1 lists of block_sizes"),
    "no layers": (lambda run: run.update(layers=[], block_sizes=[]), "0 layers have 0 lists"),
    "other parameters": (lambda run: run.update(num_params=40), "num_params is 40, the layers have 39"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_record_that_is_not_one_is_refused(refused: Any, name: str) -> None:
    change, message = CHANGES[name]
    assert message in refused("train.json", change)


def test_a_comparison_with_a_run_that_is_not_one_is_refused(refused: Any) -> None:
    ddp: Callable[[Json], Json] = lambda document: document["runs"]["ddp"]  # noqa: E731
    assert "runs.ddp has no totals" in refused("compare.json", lambda one: ddp(one).pop("totals"))
    assert "it has no runs" in refused("compare.json", lambda one: one.update(runs={}))
    assert "it has no runs" in refused("compare.json", lambda one: one.pop("runs"))
    assert "runs.ddp is of strategy zero1" in refused(
        "compare.json", lambda one: one["runs"].update(ddp=deepcopy(one["runs"]["zero1"]))
    )
    assert "runs.ddp is not of schema zero-emulator/run/4" in refused(
        "compare.json", lambda one: ddp(one).update(schema="zero-emulator/run/1")
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no JSON, or not all of it"),
        (b"{}", "schema None"),
        (b"[1]", "holds no JSON object"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (None, "no file"),
    ],
)
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_records(path)


def test_half_a_record_is_refused(files: Path, tmp_path: Path) -> None:
    whole = (files / "train.json").read_text()
    path = tmp_path / "half.json"
    for part in (1, len(whole) // 2, len(whole) - 3):
        path.write_text(whole[:part])
        with pytest.raises(ValueError, match="no JSON, or not all of it"):
            read_records(path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no file"):
        read_records(tmp_path / "pipe")
