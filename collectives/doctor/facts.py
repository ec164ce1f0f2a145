"""What is known of a machine and its environment before anybody says what is wrong with them."""

from dataclasses import dataclass, field
from typing import NamedTuple

OPEN_MPI, MPICH = "Open MPI", "MPICH"


def family(version: str) -> str:
    """Whose launcher or library says this of its version; MPICH's for all that start ranks as MPICH does.

    >>> family("mpiexec (OpenRTE) 4.1.4"), family("HYDRA build details:")
    ('Open MPI', 'MPICH')
    """
    words = version.lower()
    if any(name in words for name in ("open mpi", "openrte", "prrte", "prterun")):
        return OPEN_MPI
    return MPICH if any(name in words for name in ("mpich", "hydra", "intel", "mvapich")) else ""


class Launcher(NamedTuple):
    """An mpiexec, and what it says of its version."""

    path: str
    version: str


@dataclass(frozen=True)
class Facts:
    """What the findings are made of. A text that is empty was not to be had."""

    python: str
    ranks: int
    cores: int
    wheels: tuple[str, ...] = ()  # of MPI libraries
    has_mpi4py: bool = True
    library: str = ""  # its version
    library_fault: str = ""  # what mpi4py said instead
    launchers: tuple[Launcher, ...] = ()  # the one that the commands here take, then the one on PATH
    world_sizes: tuple[int, ...] = ()  # what each of two ranks sees
    launch_fault: str = ""  # what was said instead
    is_root: bool = False
    shared_bytes: int | None = None  # free in /dev/shm, where the system has one; 0 if it is not writable
    environment: dict[str, str] = field(default_factory=dict)
