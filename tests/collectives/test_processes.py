"""What is special about ranks as processes: how they start, how they end, and what they leave."""

import contextlib
import errno
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectives.transports.base import Transport, TransportError
from collectives.transports.failures import RankDiedError
from collectives.transports.processes import job, run_processes
from collectives.transports.processes.pieces import SLOT_BYTES, SLOTS

LARGE = 3 * SLOTS * SLOT_BYTES + 5
SOON = 6  # seconds


@pytest.fixture(autouse=True)
def short_of_patience(monkeypatch: Any) -> None:
    monkeypatch.setattr(job, "GRACE_SECONDS", 0.5)


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """No process, no open file, nothing in the shared memory or the temporary files of the machine."""

    def left() -> tuple[set[str], int]:
        children = {
            process.name
            for process in Path("/proc").glob("[0-9]*")
            if f"PPid:\t{os.getpid()}\n" in _status(process)
        }
        return children, len(os.listdir("/proc/self/fd"))

    before = left()
    yield
    assert left() == before


def _status(process: Path) -> str:
    with contextlib.suppress(OSError):
        return (process / "status").read_text()
    return ""


def test_results_come_in_rank_order() -> None:
    def body(transport: Transport) -> tuple[int, int]:
        time.sleep(0.02 * (3 - transport.rank))
        return transport.rank, os.getpid()

    results = run_processes(3, body)
    assert [rank for rank, _ in results] == [0, 1, 2]
    assert len({os.getpid(), *(pid for _, pid in results)}) == 4


@pytest.mark.parametrize("world_size", [0, -1])
def test_a_world_without_ranks_is_refused(world_size: int) -> None:
    with pytest.raises(ValueError, match=f"a world of {world_size} ranks: give 1 or more"):
        run_processes(world_size, lambda transport: None)


# How a rank ends.


def wait_for_ever(transport: Transport) -> None:
    transport.exchange(None, limit=None)


@pytest.mark.usefixtures("nothing_left")
def test_a_rank_that_raises_ends_the_waits_of_the_others_with_its_exception_and_its_rank(
    tmp_path: Path,
) -> None:
    told: list[str] = []

    def body(transport: Transport) -> None:
        if transport.rank == 1:
            raise ZeroDivisionError("rank 1 has\nhad enough")
        with pytest.raises(TransportError, match="rank 1 has failed"):
            wait_for_ever(transport)
        (tmp_path / f"{transport.rank}").touch()

    start = time.monotonic()
    with pytest.raises(ZeroDivisionError, match="had enough") as caught:
        run_processes(3, body, on_failure=lambda line, error: told.append(line))
    assert time.monotonic() - start < SOON
    assert getattr(caught.value, "__notes__", ["on rank 1 of 3"]) == ["on rank 1 of 3"]
    assert 'raise ZeroDivisionError("rank 1 has' in str(caught.value.__cause__)
    assert told == ["rank 1 raised ZeroDivisionError: rank 1 has had enough"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "2"]


ENDINGS: dict[str, tuple[Callable[[], object], str]] = {
    "killed": (
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        r"rank 1 was killed by signal 9 \(SIGKILL\)",
    ),
    "left with code 0": (lambda: os._exit(0), "rank 1 exited with code 0 in the middle of the run"),
    "left with code 7": (lambda: os._exit(7), "rank 1 exited with code 7 in the middle of the run"),
}


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_rank_that_ends_without_a_word_is_named_soon(ending: str) -> None:
    end, line = ENDINGS[ending]

    def body(transport: Transport) -> None:
        if transport.rank == 1:
            end()
        wait_for_ever(transport)

    start = time.monotonic()
    with pytest.raises(RankDiedError, match=line):
        run_processes(3, body)
    assert time.monotonic() - start < SOON


def test_a_rank_that_leaves_by_sys_exit_has_failed() -> None:
    def body(transport: Transport) -> None:
        if transport.rank == 1:
            sys.exit(0)
        wait_for_ever(transport)

    with pytest.raises(SystemExit):
        run_processes(2, body)


@pytest.mark.usefixtures("nothing_left")
def test_a_wait_for_a_stopped_rank_ends_at_its_limit_and_says_who_is_stopped() -> None:
    told: list[str] = []

    def body(transport: Transport) -> None:
        transport.exchange(None)
        if transport.rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        transport.exchange(None, limit=0.3)

    with pytest.raises(TransportError, match=r"rank \d waited 0.3 s"):
        run_processes(3, body, on_failure=lambda line, error: told.append(line))
    assert told[0].endswith(" (rank 1 is stopped)")


@pytest.mark.usefixtures("nothing_left")
def test_a_rank_that_does_not_end_after_the_others_is_named_at_the_limit() -> None:
    def body(transport: Transport) -> None:
        if transport.rank == 1:
            time.sleep(1000)

    with pytest.raises(RankDiedError, match=r"rank 1 had not ended 0.3 s after the others"):
        run_processes(3, body, last_rank_limit=0.3)


@pytest.mark.usefixtures("nothing_left")
def test_a_rank_that_computes_on_is_ended_when_another_has_failed() -> None:
    def body(transport: Transport) -> None:
        if transport.rank == 1:
            raise ArithmeticError
        time.sleep(1000)

    start = time.monotonic()
    with pytest.raises(ArithmeticError):
        run_processes(2, body)
    assert time.monotonic() - start < SOON


class Arguments(Exception):  # noqa: N818 - which pickle writes, and cannot read
    def __init__(self, one: str, other: str) -> None:
        super().__init__(one + other)


def test_an_exception_that_cannot_be_read_again_is_told_in_words() -> None:
    def body(transport: Transport) -> None:
        raise Arguments("cannot ", "travel")

    with pytest.raises(RuntimeError, match=r"^Arguments: cannot travel"):
        run_processes(1, body)


def test_ctrl_c_is_for_the_parent() -> None:
    def body(transport: Transport) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "went on"

    assert run_processes(1, body) == ["went on"]


@pytest.mark.parametrize("where", ["result", "exception"])
def test_what_cannot_be_pickled_is_told_by_its_rank(where: str) -> None:
    class Local(Exception):  # noqa: N818 - of which nobody else knows
        pass

    def body(transport: Transport) -> object:
        if where == "exception":
            raise Local("cannot travel")
        return Local

    told: list[str] = []
    with pytest.raises(Exception, match=r"Local"):
        run_processes(1, body, on_failure=lambda line, error: told.append(line))
    assert told[0].startswith("rank 0 raised ")


class Unreadable:
    """Goes into a pickle, and does not come out again."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


@pytest.mark.usefixtures("nothing_left")
def test_a_result_that_cannot_be_read_again_is_told_by_its_rank() -> None:
    told: list[str] = []
    with pytest.raises(ValueError, match="no number"):
        run_processes(3, lambda transport: Unreadable(), on_failure=lambda line, error: told.append(line))
    assert told[0].endswith("raised ValueError: invalid literal for int() with base 10: 'no number'")


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("refused", ["pipe", "memfd_create"])
def test_a_machine_that_does_not_start_so_many_ranks_says_how_many(monkeypatch: Any, refused: str) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, refused, refuse, raising=False)
    with pytest.raises(OSError, match=r"^3 ranks do not start here \(Too many open files\): take fewer$"):
        run_processes(3, wait_for_ever)


@pytest.mark.usefixtures("nothing_left")
def test_ranks_that_were_forked_end_when_the_next_cannot_be(monkeypatch: Any) -> None:
    start = ForkProcess.start
    started: list[int] = []

    def start_two(process: ForkProcess) -> None:
        if len(started) == 2:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        start(process)
        started.append(process.pid or 0)

    monkeypatch.setattr(ForkProcess, "start", start_two)
    with pytest.raises(OSError, match=r"^3 ranks do not start here \(Resource temporarily unavailable\)"):
        run_processes(3, wait_for_ever)
    assert len(started) == 2


@pytest.mark.usefixtures("nothing_left")
def test_a_rank_that_has_returned_leaves_no_process_of_its_own() -> None:
    def body(transport: Transport) -> int:
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
        child.start()
        return child.pid or 0

    start = time.monotonic()
    children = run_processes(2, body)
    assert time.monotonic() - start < SOON
    end = start + SOON
    while any("State:\tS" in _status(Path(f"/proc/{pid}")) for pid in children):
        assert time.monotonic() < end
        time.sleep(0.01)


PRINTS = """
import os, signal
from collectives.transports.processes import run_processes

def body(transport):
    for number in range(2000):
        print(f"rank {transport.rank} line {number}")
    print("unfinished", end="")
    if ENDING == "raise":
        raise ValueError("after its last line")
    if ENDING == "kill":
        os.kill(os.getpid(), signal.SIGKILL)

run_processes(2, body)
"""


@pytest.mark.parametrize("ending", ["return", "raise", "kill"])
def test_what_ranks_print_comes_in_whole_lines_however_they_end(ending: str) -> None:
    words = [sys.executable, "-c", PRINTS.replace("ENDING", repr(ending))]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    out = subprocess.run(words, capture_output=True, text=True, timeout=60, env=buffered).stdout
    lines = out.replace("unfinished", "").splitlines()
    assert set(lines) <= {f"rank {rank} line {number}" for rank in range(2) for number in range(2000)}
    first_to_end = max(range(2), key=lambda rank: sum(line.startswith(f"rank {rank}") for line in lines))
    assert sum(line.startswith(f"rank {first_to_end}") for line in lines) == 2000
    assert ("unfinished" in out) == (ending != "kill")


KILLED = """
import os, time
from collectives.transports.processes import run_processes

def body(transport):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(1000)

run_processes(2, body)
"""


def test_no_rank_outlives_a_parent_that_is_killed() -> None:
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        ranks = [int(parent.stdout.readline()) for _ in range(2)]
        parent.kill()
        assert parent.stdout.read() == "", "the pipe is closed when the last of them is gone"
    end = time.monotonic() + SOON
    while any(_status(Path(f"/proc/{pid}")) for pid in ranks):
        assert time.monotonic() < end
        time.sleep(0.01)


def named_files() -> set[str]:
    """What this process has open or mapped, where shared memory and temporary files are."""
    names = [line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
    for one in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that listed them
            names.append(os.readlink(f"/proc/self/fd/{one}"))
    places = ("/dev/shm/", f"{tempfile.gettempdir()}/")
    return {name for name in names if name.startswith(places) and not name.endswith("(deleted)")}


def test_ranks_use_nothing_with_a_name_that_could_be_left_behind() -> None:
    def body(transport: Transport) -> set[str]:
        transport.exchange(np.ones(LARGE))
        return named_files()

    with tempfile.NamedTemporaryFile() as known:
        assert known.name in named_files()
    before = named_files()
    assert all(found <= before for found in run_processes(2, body, may_read=False))


def test_more_ranks_than_files_may_be_open_by_habit_are_run() -> None:
    def body(transport: Transport) -> int:
        used, (_, hard) = len(os.listdir("/proc/self/fd")), resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 10, hard))
        return len(run_processes(6, lambda inner: inner.exchange(inner.rank)))

    assert run_processes(1, body) == [6]


# How bytes travel.


WITHOUT_MPI = """
import sys
sys.modules["mpi4py"] = None
import collectives.transports.processes
"""


def test_processes_need_no_mpi() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_MPI], check=True)
