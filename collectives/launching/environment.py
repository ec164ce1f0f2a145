"""The environment of the processes of a job: what every MPI library needs to start them here."""

import os
import sys

_SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",  # containers run as root
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # more ranks than cores
    "OPENBLAS_NUM_THREADS": "1",  # threads change the order of sums, and fight the other ranks for cores
    "OMP_NUM_THREADS": "1",
}


def job_environment() -> dict[str, str]:
    """Ours, with settings where there are none, and with modules found where this process finds its own."""
    # These ranks run here: inside an allocation mpiexec would otherwise start them through srun, elsewhere.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PBS_"))}
    home = {"HOME": os.path.expanduser("~")}  # Open MPI does not start without one
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    return _SETTINGS | home | inherited | {"PYTHONPATH": path}
