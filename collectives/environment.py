"""What a measurement or a run was made with."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def describe_environment(transport: str) -> dict[str, Any]:
    """Versions of what takes part, and the transport: for the record."""
    found: dict[str, Any] = {"python": platform.python_version(), "transport": transport}
    for package in ("zero-emulator", "numpy", "mpi4py"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    found["mpi_library"] = None
    if transport == "mpi":
        from mpi4py import MPI

        found["mpi_library"] = MPI.Get_library_version().splitlines()[0].strip("\0").strip()
    return found


def machine_bytes() -> int:
    """Physical memory, without swap."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
