"""Commands become ranks, and a rank that fails ends them all: run as a user would, outside MPI."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from collectives.launching.launch import LaunchError, launch, launched_size
from collectives.launching.launched import check_library, check_world, find_mpiexec

HERE = Path(__file__).parent
IS_OPEN_MPI = Path(find_mpiexec()).with_name("ompi_info").exists()
LIMIT = 10  # seconds from a fault to an empty process table
FOREIGN = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


class Jobs:
    """Starts commands whose processes, all of them, carry a token by which they are found again."""

    def __init__(self, scratch):
        path = os.pathsep.join([str(HERE), str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")])
        self.token = f"LAUNCH_TEST={uuid.uuid4()}"
        name, _, value = self.token.partition("=")
        self.environment = {**os.environ, "PYTHONPATH": path, name: value, "TMPDIR": str(scratch)}

    def start(self, *arguments, prefix=(), **more):
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "launch_programs", *arguments],
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments, **more):
        job = self.start(*arguments, **more)
        out, err = job.communicate(timeout=LIMIT)
        return job.returncode, out, err

    def alive(self):
        """The command lines of all processes, by their numbers."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self.token.encode() in (process / "environ").read_bytes():
                    found[int(process.name)] = (process / "cmdline").read_text()
            except OSError:
                continue
        return found

    def shared_memory(self):
        """The files in /dev/shm that our processes have mapped, and nobody else's."""
        maps = "".join(Path(f"/proc/{process}/maps").read_text() for process in self.alive())
        return {Path(name) for name in re.findall(r"/dev/shm/\S+", maps)}

    def assert_all_gone(self, limit=0.0):
        deadline = time.monotonic() + limit
        while (left := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left


def is_rank(command_line):
    return "launch_programs" in command_line and "witness" not in command_line


def children_of(process):
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.fixture
def jobs():
    scratch = Path("/tmp") / f"launch-{uuid.uuid4().hex[:8]}"  # Open MPI's socket paths must stay short
    scratch.mkdir()
    jobs = Jobs(scratch)
    yield jobs
    jobs.assert_all_gone(1.0)
    left = [path.name for path in scratch.iterdir()]
    subprocess.run(["rm", "-rf", str(scratch)], check=True)
    assert left == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_cannot_be_written_ends_the_job_with_one_line(jobs):
    words = [sys.executable, "-m", "launch_programs", "returns", "0"]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            words, env=jobs.environment, stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT
        )
    assert result.returncode == 3
    lines = [line for line in result.stderr.splitlines() if line != "a word from rank 0"]
    assert lines == ["the ranks are ended, for what they print is lost: No space left on device"]


def test_modules_in_the_current_folder_are_not_taken_for_ours(jobs, tmp_path):
    for name in ("random", "numpy", "runpy", "types", "signal", "mpi4py", "collectives"):
        (tmp_path / f"{name}.py").write_text("raise AssertionError('imported from the current folder')")
    jobs.environment["PYTHONPATH"] = str(HERE.parent.parent)
    words = [sys.executable, str(HERE / "launch_programs.py"), "returns", "0"]  # a command, not -m
    result = subprocess.run(
        words, env=jobs.environment, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "4 ranks\n", "a word from rank 0\n")


def test_modules_beside_the_command_are_found_by_its_ranks(jobs, tmp_path):
    """As in a copy of the sources that nobody has installed."""
    shutil.copy(HERE / "launch_programs.py", tmp_path)
    jobs.environment["PYTHONPATH"] = str(HERE.parent.parent)
    words = [sys.executable, str(tmp_path / "launch_programs.py"), "returns", "0"]
    assert subprocess.run(words, env=jobs.environment, timeout=LIMIT, capture_output=True).returncode == 0


@pytest.mark.parametrize("code", [0, 2])
def test_a_code_that_all_ranks_return_is_the_code_of_the_command(jobs, code):
    assert jobs.run("returns", str(code)) == (code, "4 ranks\n", "a word from rank 0\n")


@pytest.mark.parametrize(
    ("fault", "victim", "line"),
    [
        ("sys.exit(0)", 1, "rank 1 raised SystemExit: 0"),
        ("timeout", 2, "rank 2 raised TimeoutError: step 2: no message from rank 0 in 5 s"),
        ("os._exit(0)", 3, "rank 3 exited with code 0 in the middle of the run"),
        ("kill", 2, "rank 2 was killed by signal 9 (SIGKILL)"),
    ],
)
def test_a_rank_that_fails_while_others_wait_ends_the_job_with_its_name(jobs, fault, victim, line):
    code, out, err = jobs.run(fault, str(victim))
    jobs.assert_all_gone()
    assert code == 3
    assert out == "all ranks are here\n"
    *trace, last = err.splitlines()
    assert last == line
    assert all(above.startswith(f"[rank {victim}] ") for above in trace)  # no banner of mpiexec's


def test_an_error_that_all_ranks_raise_is_told_once(jobs):
    code, _, err = jobs.run("all_raise", "bug")
    assert code == 3
    assert err.count("Traceback") == 1
    last = err.splitlines()[-1]
    assert re.fullmatch(r"rank \d raised ValueError: 10 parameters do not split over 4 ranks", last)


def test_an_error_that_is_for_users_is_told_without_a_traceback(jobs):
    code, _, err = jobs.run("all_raise", "user")
    assert code == 3
    assert re.fullmatch(r"rank \d raised UserError: 10 parameters do not split over 4 ranks\n", err)


def test_a_rank_that_never_follows_the_others_is_named_after_the_limit(jobs):
    code, _, err = jobs.run("one_returns", "1", LAST_RANK_LIMIT="0.5")
    jobs.assert_all_gone()
    assert code == 3
    assert err == "rank 1 had not ended 0.5 s after the others\n"


def test_a_rank_that_is_stopped_before_mpi_starts_is_named_after_the_limit(jobs):
    code, _, err = jobs.run("before_mpi", "stops", "2", START_LIMIT="3")
    jobs.assert_all_gone()
    assert code == 3
    assert re.fullmatch(
        r"ranks [0123, ]*2[3, ]* had not started MPI after 3 s without news \(rank 2 is stopped\)\n", err
    )


def test_a_rank_that_is_ended_before_mpi_starts_ends_the_others(jobs):
    code, _, err = jobs.run("before_mpi", "witness_ends", "2")
    jobs.assert_all_gone()
    assert (code, err) == (3, "rank 2 was ended from outside, by signal 15 (SIGTERM)\n")


def test_a_rank_whose_witness_is_killed_is_missed_even_if_mpiexec_is_blind(
    jobs, monkeypatch, tmp_path, capfd
):
    blind = tmp_path / "mpiexec"
    blind.write_text('#!/bin/sh\nshift 2\nPMI_RANK=0 "$@" &\nexec sleep 600\n')
    blind.chmod(0o755)
    monkeypatch.setattr("collectives.launching.launch.find_mpiexec", lambda: str(blind))
    for name, value in jobs.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(HERE)
    start = time.monotonic()
    assert launch(1, "launch_programs", ["before_mpi", "witness_is_killed", "0"]) == 3
    assert time.monotonic() - start < LIMIT
    assert capfd.readouterr().err == "rank 0 was killed, and the process that watches over it\n"


@pytest.mark.parametrize(
    ("fault", "who"),
    [("one_is_stopped", "rank 2 is stopped"), ("one_watch_is_stopped", "the watch over rank 2 is stopped")],
)
def test_who_waits_in_vain_says_who_is_stopped(jobs, fault, who):
    code, _, err = jobs.run(fault, "2")
    jobs.assert_all_gone()
    assert code == 3
    last = err.splitlines()[-1]
    assert last == f"rank 0 raised TimeoutError: rank 1 has sent nothing ({who})"


def test_ranks_that_are_done_are_not_kept_waiting_by_a_watch_that_is_stopped(jobs):
    code, _, err = jobs.run("returns_unwatched")
    jobs.assert_all_gone()
    assert code == 0
    assert err == (
        "mpiexec had not ended 2 s after all ranks were done (the watch over ranks 0, 1, 2, 3 is stopped)\n"
    )


def test_a_rank_that_is_killed_with_its_watch_is_among_those_named(jobs):
    """Alone by Open MPI's mpiexec, which asks the others to end; MPICH's kills them all at once."""
    code, _, err = jobs.run("kill_watch", "2")
    jobs.assert_all_gone()
    assert code == 3
    one = "rank 2 was killed, and the process that watches over it"
    several = r"ranks [01, ]*2[3, ]* were killed, and the processes that watch over them"
    assert re.fullmatch(rf"{one}\n|{several}\n", err)


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (signal.SIGKILL, r"mpiexec was killed by signal 9 \(SIGKILL\)"),
        # On a busy machine mpiexec kills some ranks with their watchers before these have noted why.
        (
            signal.SIGTERM,
            r"mpiexec ended with code \d+ after stopping ranks [0-3, ]*: somebody .*|"
            r"ranks? [0-3, ]* (was|were) killed, and the process(es)? that watch(es)? over (it|them)",
        ),
    ],
)
def test_an_mpiexec_that_is_ended_from_outside_is_not_blamed_on_a_rank(jobs, number, line):
    with jobs.start("kill", "-1") as job:  # no rank is -1: all wait for ever
        assert job.stdout.readline() == "all ranks are here\n"
        os.kill(children_of(job.pid)[0], number)
        *_, last = job.communicate(timeout=LIMIT)[1].splitlines()
        assert job.returncode == 3
        assert re.fullmatch(line, last)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_launcher_that_is_stopped_leaves_no_process_behind(jobs, number):
    with jobs.start("kill", "-1") as job:  # no rank is -1: all wait for ever
        assert job.stdout.readline() == "all ranks are here\n"
        job.send_signal(number)
        if number == signal.SIGKILL:
            assert job.wait(LIMIT) == -number
        else:
            assert job.communicate(timeout=LIMIT) == ("", "stopped by signal 2 (SIGINT)\n")
            assert job.returncode == 128 + number
        jobs.assert_all_gone(LIMIT)


@pytest.mark.parametrize("killed", ["a rank", "mpiexec", "the launcher"])
def test_a_job_that_is_killed_leaves_no_file_behind(jobs, killed):
    with jobs.start("kill", "-1") as job:  # no rank is -1: all wait for ever
        assert job.stdout.readline() == "all ranks are here\n"
        shared, all_of_us = jobs.shared_memory(), jobs.alive()
        assert shared
        victims = {
            "a rank": [
                process for process, line in all_of_us.items() if is_rank(line) and process != job.pid
            ],
            "mpiexec": children_of(job.pid),
            "the launcher": [job.pid],
        }
        os.kill(victims[killed][0], signal.SIGKILL)
        job.communicate(timeout=LIMIT)
        jobs.assert_all_gone(LIMIT)
        deadline = time.monotonic() + 1.0
        while (left := [name for name in shared if name.exists()]) and time.monotonic() < deadline:
            time.sleep(0.05)  # witnesses remove it, after a launcher that was killed
        assert left == []


def test_without_a_home_the_ranks_start_all_the_same(jobs):
    del jobs.environment["HOME"]
    assert jobs.run("returns", "0") == (0, "4 ranks\n", "a word from rank 0\n")


def test_shared_memory_that_a_job_has_not_mapped_is_left_alone(jobs):
    another = Path("/dev/shm") / f"mpich_shm_{uuid.uuid4().hex[:8]}_0"
    another.write_bytes(b"of another job")
    try:
        jobs.run("kill", "1")
        assert another.exists()
    finally:
        another.unlink()


def test_a_rank_that_leaves_under_somebody_elses_mpiexec_ends_the_job(jobs):
    code, _, err = jobs.run("sys.exit(0)", "2", prefix=[find_mpiexec(), "-n", "4"], **FOREIGN)
    jobs.assert_all_gone(1.0)
    assert code != 0
    assert "rank 2 raised SystemExit: 0" in err


def test_what_mpiexec_has_to_say_is_passed_on_when_no_rank_left_word(jobs, monkeypatch, tmp_path, capfd):
    broken = tmp_path / "mpiexec"
    broken.write_text("#!/bin/sh\necho there are not enough slots >&2\nexit 7\n")
    broken.chmod(0o755)
    monkeypatch.setattr("collectives.launching.launch.find_mpiexec", lambda: str(broken))
    assert launch(4, "launch_programs", []) == 3
    told = capfd.readouterr().err.splitlines()
    assert told[0] == "there are not enough slots"
    assert told[1].startswith("mpiexec ended with code 7 and no word from rank 0")


def test_without_an_mpiexec_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="pip install mpich"):
        launch(4, "launch_programs", [])


@pytest.mark.parametrize(
    ("num_ranks", "way_out"), [(0, "ask for 1 or more"), (1025, "ask for 1024 or fewer")]
)
def test_a_number_of_ranks_that_cannot_run_is_refused(num_ranks, way_out):
    with pytest.raises(LaunchError, match=f"{num_ranks} ranks .*: {way_out}"):
        launch(num_ranks, "launch_programs", [])


def test_ctrl_c_before_the_ranks_have_started_leaves_nothing_behind(monkeypatch, capfd):
    made = []

    def interrupted(**settings):
        made.append(make(**settings))
        signal.raise_signal(signal.SIGINT)
        return made[0]

    make = tempfile.mkdtemp
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    assert launch(1, "launch_programs", ["one_returns", "0"]) == 130
    assert capfd.readouterr().err == "stopped by signal 2 (SIGINT)\n"
    assert not os.path.exists(made[0])


@pytest.mark.parametrize(
    ("environment", "size"),
    [
        ({}, None),
        ({"SLURM_NTASKS": "8"}, None),
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, None),  # a batch script
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "3", "PMIX_RANK": "3"}, 8),
        ({"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "PMI_FD": "9"}, 2),
        ({"PMI_RANK": "0", "PMI_SIZE": "4"}, 4),
        ({"OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "0"}, 4),
        ({"PMIX_RANK": "0"}, 0),
    ],
)
def test_only_a_rank_is_taken_for_a_rank(environment, size):
    assert launched_size(environment) == size


def test_a_world_of_another_size_than_promised_names_launcher_library_and_way_out(monkeypatch):
    for name in ("OMPI_COMM_WORLD_SIZE", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PMI_SIZE", "4")
    check_world(4)
    with pytest.raises(
        LaunchError, match=r"MPICH's mpiexec started 4 ranks, but Open MPI sees a world of 1.*Run"
    ):
        check_world(1, "Open MPI")


@pytest.mark.parametrize(
    ("environment", "library"),
    [
        ({"OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "0"}, "MPICH Version: 5.0.2"),
        ({"PMI_SIZE": "4", "PMI_RANK": "0"}, "Open MPI v5.0.11"),
    ],
)
def test_a_launcher_and_a_library_that_are_strangers_are_found_before_mpi_aborts(
    monkeypatch, environment, library
):
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    check_library(library)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LaunchError, match=rf"started 4 ranks, but the MPI library is {library}.*Run"):
        check_library(library)


def test_ranks_of_another_librarys_mpiexec_say_so_in_one_line(jobs):
    names = ("PMI_RANK", "PMI_SIZE") if IS_OPEN_MPI else ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    for rank, lines in ((0, 1), (3, 0)):
        code, out, err = jobs.run("returns", "0", **dict(zip(names, (str(rank), "4"), strict=True)))
        assert (code, out) == (2, "")
        assert err.count("\n") == err.count("mpiexec started 4 ranks, but the MPI library is") == lines
