"""One set of test bodies, two worlds: ranks as threads of this process, or real MPI ranks.

``pytest`` runs the ranks as threads, for world sizes 1, 2, 3, 4, 5, 7 and 8, and what is marked so on a few
sizes as processes too. Under

    mpiexec -n 4 python -m mpi4py -m pytest --with-mpi -m mpi -q tests

the bodies that use ``run_ranks``, and all of tests/mpi, run on the MPI ranks. Nothing is skipped: what does
not apply is deselected, and a session that ran fewer MPI tests than it selected fails. A rank whose test
fails ends the job, because its peers would wait for it, or pair the next test with an old message.
"""

import gc
import os
import re
import signal
import sys
import tracemalloc
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import hypothesis
import numpy as np
import pytest

from collectives.communicator import Communicator
from collectives.transports.base import Transport
from collectives.transports.checking import CheckingTransport
from collectives.transports.processes import run_processes
from collectives.transports.threads import run_threads
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.losses import LOSSES
from zero_emulator.meter import Meter, Peak
from zero_emulator.strategies import STRATEGIES
from zero_emulator.trainer import Trainer

T = TypeVar("T")

# A shell that starts us in the background has SIGINT ignored, and so would all that tests start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)

WORLD_SIZES = (1, 2, 3, 4, 5, 7, 8)
FEW_SIZES = (1, 2, 5)
TIME_LIMIT = 20.0
MPI_TESTS = Path(__file__).with_name("mpi")
RANK_FIXTURES = ("run_ranks", "run_metered", "train")
"""What a file names whose tests run on ranks: ``run_ranks``, or what another conftest.py makes of it."""

# Draws must be the same on all ranks, so they come from nowhere but the test itself.
hypothesis.settings.register_profile(
    "ranks",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("ranks")


class RunRanks(Protocol):
    """``body(communicator)`` on every rank at once; what each of them returned, in rank order, on every rank.

    ``wrap`` puts more transports around the checking one that is always there; ``message_limit`` is MPI's.
    """

    def __call__(
        self,
        body: Callable[[Communicator], T],
        *,
        wrap: Callable[[Transport], Transport] = ...,
        message_limit: int | None = ...,
        **settings: Any,
    ) -> list[T]: ...


@pytest.fixture
def runner() -> str:
    """``threads`` or ``processes``: where there is no MPI."""
    return "threads"


@pytest.fixture
def run_ranks(request: pytest.FixtureRequest, world_size: int, runner: str) -> RunRanks:
    with_mpi = _with_mpi(request.config)

    def run(
        body: Callable[[Communicator], T],
        *,
        wrap: Callable[[Transport], Transport] = lambda transport: transport,
        message_limit: int | None = None,
        **settings: Any,
    ) -> list[T]:
        settings.setdefault("time_limit", TIME_LIMIT)

        def on_rank(transport: Transport) -> T:
            return body(Communicator(wrap(CheckingTransport(transport)), **settings))

        if not with_mpi:
            return {"threads": run_threads, "processes": run_processes}[runner](world_size, on_rank)
        from collectives.transports.mpi import MPITransport

        transport = MPITransport() if message_limit is None else MPITransport(message_limit=message_limit)
        results = transport.exchange(on_rank(transport), TIME_LIMIT)
        transport.close(TIME_LIMIT)
        return results

    return run


class Traced(NamedTuple):
    """What tracemalloc saw of a rank's process in two iterations, and what its meter did; in bytes."""

    traced_persistent: int
    traced_peak: int
    persistent: dict[str, int]
    peak: Peak


@pytest.fixture
def traced() -> Callable[[Transport, Callable[..., Communicator], RunConfig, Dataset], Traced]:
    def traced(
        transport: Transport, new_communicator: Callable[..., Communicator], config: RunConfig, data: Dataset
    ) -> Traced:
        partition = config.partition(data, transport.world_size)
        x, y = data.train_x[: config.batch_size].astype(np.float32), data.train_y[: config.batch_size]
        gc.collect()
        tracemalloc.start()
        try:
            meter = Meter()
            comm = new_communicator(transport, allocate=partial(meter.empty, "buffer", dtype=np.uint8))
            strategy = STRATEGIES[config.strategy](
                comm, partition, 0, config.policy, config.make_optimizer(), config.strategy_options(), meter
            )
            trainer = Trainer(partition.layers, LOSSES[config.loss], strategy)
            tracemalloc.reset_peak()  # the set-up draws the whole model
            for _ in range(2):
                trainer.iterate(x, y)
            persistent, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return Traced(persistent, peak, dict(+meter.alive), meter.peak)

    return traced


@pytest.fixture(scope="session")
def wide() -> Dataset:
    """Few points of many features and as many classes: layers of that width make millions of parameters."""
    width = 512
    x = np.random.default_rng(0).standard_normal((40, width))
    return Dataset("wide", x, np.arange(40), x[:8], np.arange(8), num_classes=width)


def _with_mpi(config: pytest.Config) -> bool:
    return bool(config.getoption("--with-mpi", False))


def _mpi_world() -> Any:
    from mpi4py import MPI  # never in a session of threads: it would start MPI

    return MPI.COMM_WORLD


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not _with_mpi(config):
        return True if collection_path == MPI_TESTS else None
    return True if collection_path.is_file() and not _may_use_ranks(collection_path) else None


@cache
def _may_use_ranks(file: Path) -> bool:
    """Whether a test in it may run on MPI ranks, each of which would import it; judged by its text."""
    text = file.read_text()
    named = any(re.search(rf"\b{fixture}\b", text) for fixture in RANK_FIXTURES)
    return MPI_TESTS in file.parents or (named and not re.search("(?m)^pytestmark = .*on_threads", text))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``world_size``, unless the test chooses its own."""
    marks = metafunc.definition.iter_markers("parametrize")
    if "world_size" not in metafunc.fixturenames or any("world_size" in mark.args[0] for mark in marks):
        return
    if _with_mpi(metafunc.config):
        sizes: tuple[int, ...] = (_mpi_world().size,)  # deselected later if it is not one of them
    else:
        sizes = tuple(filter(partial(_is_for, metafunc.definition), WORLD_SIZES))
    ids = [f"{size}ranks" for size in sizes]
    if metafunc.definition.get_closest_marker("on_processes") and not _with_mpi(metafunc.config):
        some = [size for size in sizes if size in FEW_SIZES]
        ways = [("threads", size) for size in sizes] + [("processes", size) for size in some]
        ids += [f"{size}processes" for size in some]
        metafunc.parametrize(("runner", "world_size"), ways, ids=ids)
    else:
        metafunc.parametrize("world_size", sizes, ids=ids)


def _is_for(item: pytest.Item, world_size: int) -> bool:
    mark = item.get_closest_marker("ranks")
    least = int(mark.kwargs["min"]) if mark else 1
    return world_size >= least and (world_size in FEW_SIZES or not item.get_closest_marker("few_sizes"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not _with_mpi(config):
        for item in items:
            if _is_on_ranks(item) and not _may_use_ranks(item.path):
                raise pytest.UsageError(
                    f"{item.nodeid} would not run on MPI: add its fixture to RANK_FIXTURES"
                )
        return
    size = _mpi_world().size
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        here = item.callspec.params.get("world_size", size) if hasattr(item, "callspec") else size
        if _is_on_ranks(item) and here == size and _is_for(item, size):
            item.add_marker("mpi")
            chosen.append(item)
        else:
            others.append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen


def _is_on_ranks(item: pytest.Item) -> bool:
    uses = "run_ranks" in getattr(item, "fixturenames", ()) or MPI_TESTS in item.path.parents
    return uses and not item.get_closest_marker("on_threads")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ranks(min): the test needs at least so many ranks")
    config.addinivalue_line("markers", "on_threads: real ranks would show nothing more, and take longer")
    config.addinivalue_line("markers", "on_processes: without MPI, on a few sizes as processes too")
    config.addinivalue_line("markers", "few_sizes: one world size of each kind shows it as well as all")
    if _with_mpi(config):
        config.pluginmanager.register(_MPISession(config, _mpi_world()), "mpi-session")


class _MPISession:
    """One report for all ranks; a failure on any of them ends all; a test that did not run is a failure."""

    def __init__(self, config: pytest.Config, world: Any) -> None:
        self.world = world
        self.selected = self.passed = 0
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        if world.rank != 0 and reporter is not None:
            reporter._tw._file = open(os.devnull, "w")  # noqa: SIM115 - open until the process ends

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.selected = len(session.items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._end_all_if_failed(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._end_all_if_failed(report)
        self.passed += report.when == "call" and report.passed

    def _end_all_if_failed(self, report: Any) -> None:
        if report.failed:
            print(f"\nrank {self.world.rank}: {report.nodeid}\n{report.longreprtext}", file=sys.stderr)
            sys.stdout.flush()
            sys.stderr.flush()
            self.world.Abort(1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.passed != self.selected:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.passed == self.selected:
            line = f"{self.passed} MPI tests ran on {self.world.size} ranks"
        else:
            line = f"ran {self.passed} of {self.selected} MPI tests: skipping hides the others"
        terminalreporter.write_line(line)
