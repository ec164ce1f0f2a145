"""mpi4py's own tests, of the installed version: they are in its source distribution alone."""

import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

SECONDS = 300


@pytest.fixture(scope="session")
def mpi4py_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their directory, fetched by pip into this environment the first time."""
    installed = version("mpi4py")
    home = Path(sys.prefix) / "mpi4py-tests"
    tests = home / f"mpi4py-{installed}" / "test"
    if not tests.is_dir():
        downloads = tmp_path_factory.mktemp("downloads")
        fetch = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--no-binary", "mpi4py"]
        subprocess.run([*fetch, "--dest", downloads, f"mpi4py=={installed}"], check=True, timeout=SECONDS)
        (archive,) = downloads.glob("mpi4py-*.tar.gz")
        with tarfile.open(archive) as tar:
            members = [one for one in tar.getmembers() if one.name.split("/")[1:2] == ["test"]]
            tar.extractall(home, members)
    return tests
