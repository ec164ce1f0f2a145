"""How a rank starts MPI, once it is sure that its launcher and its library belong together."""

import sys

from collectives.launching.launched import check_library, check_world


def start_mpi() -> None:
    """Initialise MPI, if nobody has; it is finalised when the process ends.

    Raises LaunchError if the mpiexec of another MPI library has started this process.
    """
    if "mpi4py.MPI" not in sys.modules:
        import mpi4py

        mpi4py.rc(initialize=False, finalize=True)  # first a look at the library, as a wrong one may abort
    from mpi4py import MPI

    library = " ".join(MPI.Get_library_version().strip("\0").partition(",")[0].splitlines()[0].split())
    if not MPI.Is_initialized():
        check_library(library)
        MPI.Init_thread()
    check_world(MPI.COMM_WORLD.size, library)
