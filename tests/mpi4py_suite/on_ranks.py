"""One rank of mpi4py's own tests on wrapped communicators: what passed, and what went through us.

Started by test_suite.py as ``mpiexec -n N python -m mpi4py on_ranks.py SETTINGS``, a JSON object: the
directory of the tests, their modules, the file for the report, the backends and the type codes of arrays to
try (all if null), and the name of a method to leave to MPI, to see that this is found out.
"""

import importlib
import json
import sys
import unittest
from collections import Counter
from typing import Any

from mpi4py import MPI

from collectives.mpi4py_comm import CountedComm
from collectives.mpi4py_comm.buffers import (
    BlockingCollectives,
    NonblockingCollectives,
    PersistentCollectives,
)
from collectives.mpi4py_comm.objects import ObjectCollectives
from collectives.mpi4py_comm.tally import Tally

TIME_LIMIT = 30.0
FORMS = BlockingCollectives, NonblockingCollectives, PersistentCollectives, ObjectCollectives
COLLECTIVES = {name for form in FORMS for name in vars(form) if not name.startswith("_")}

asked: Counter[str] = Counter()
"""How often each collective of a communicator was looked up by its name, to be called."""


class WatchedComm(CountedComm):
    """Notes what is asked of it, whoever answers."""

    def __getattribute__(self, name: str) -> Any:
        if name in COLLECTIVES:
            asked[name] += 1
        return super().__getattribute__(name)


class Report(unittest.TextTestResult):
    """Ends all ranks with the first failure: the others would wait, or pair the next test with this one."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.num_passed = 0

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.num_passed += 1

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.end(test, err)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.end(test, err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.end(subtest, err)

    def end(self, test: unittest.TestCase, err: Any) -> None:
        print(f"rank {world.rank}: {test.id()}\n{self._exc_info_to_string(err, test)}", file=sys.stderr)
        sys.stderr.flush()
        world.Abort(1)


def wrapped(comm: MPI.Intracomm, tally: Tally) -> WatchedComm:
    made = WatchedComm(comm)
    made._set_up(tally, (), TIME_LIMIT)
    return made


def load(settings: dict[str, Any]) -> unittest.TestSuite:
    sys.path.insert(0, settings["directory"])
    arrays = importlib.import_module("arrayimpl")
    if (backends := settings["backends"]) is not None:
        arrays.ArrayBackends[:] = [one for one in arrays.ArrayBackends if one.__name__ in backends]
    if (codes := settings["typecodes"]) is not None:
        for array in arrays.ArrayBackends:
            array.TypeMap = {code: kind for code, kind in array.TypeMap.items() if code in codes}
    return unittest.defaultTestLoader.loadTestsFromNames(settings["modules"])


settings = json.loads(sys.argv[1])
world = MPI.COMM_WORLD
if settings["left_to_mpi"]:
    setattr(WatchedComm, settings["left_to_mpi"], getattr(MPI.Intracomm, settings["left_to_mpi"]))
tally = Tally()
MPI.COMM_WORLD, MPI.COMM_SELF = wrapped(world, tally), wrapped(MPI.COMM_SELF, tally)

result = Report(unittest.runner._WritelnDecorator(sys.stderr), True, 0)
tests = load(settings)
num_tests = tests.countTestCases()
tests.run(result)

report = {
    "num_tests": num_tests,
    "num_passed": result.num_passed,
    "skipped": [test.id() for test, _ in result.skipped],
    "asked": asked,
    "counted": tally.counted,
    "not_counted": tally.not_counted,
    "bytes_sent": tally.ledger.sent(),
}
reports = world.gather(report)
if reports is not None:
    with open(settings["report"], "w") as file:
        json.dump(reports, file)
