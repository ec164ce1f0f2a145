"""A rank in its own process, from the fork to its last word: what its body returned or raised."""

import gc
import io
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import IO, Any, NamedTuple, NoReturn

from collectives.launching.processes import die_with
from collectives.transports.failures import RankTraceback
from collectives.transports.processes.memory import let_siblings_read


class Report(NamedTuple):
    """What came of a rank: a result, or what it raised, with the traceback as text."""

    result: Any
    error: BaseException | None
    trace: str


def report_file() -> IO[bytes]:
    """A file without a name, made before the fork: to write into it a rank needs nobody who reads."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("report"), "w+b")
    return tempfile.TemporaryFile()


def become_rank(parent: int) -> None:
    """The first that a rank does after its fork."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent as well, which ends us
    die_with(parent)
    let_siblings_read()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Lines of several ranks stay whole, and outlive a rank that is killed.
            stream.reconfigure(line_buffering=True)
    gc.freeze()  # what the parent has left is the parent's to tidy up, and not to be touched and copied


def run_and_report(body: Callable[[], object], file: IO[bytes]) -> NoReturn:
    """Run ``body``, write down what came of it, and end this process."""
    try:
        try:
            result = body()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        told = pickle.dumps(Report(result, None, ""))
    except BaseException as error:
        told = _pickled(error)
    try:
        file.write(told)
        file.flush()
    finally:
        for child in multiprocessing.active_children():  # they would be left, and pass for this rank
            child.kill()
        os._exit(0)  # whatever else would be done at the end is the parent's


def read_report(file: IO[bytes]) -> Report | None:
    """What a rank that has ended wrote down, or None if it ended without a word."""
    file.seek(0)
    data = file.read()
    if not data:
        return None
    try:
        report: Report = pickle.loads(data)
    except Exception as error:  # a result may be written and not read, and is too large to try that before
        return Report(None, error, "")
    if report.error is not None:
        report.error.__cause__ = RankTraceback(report.trace)
    return report


def _pickled(error: BaseException) -> bytes:
    trace = "".join(traceback.format_exception(error))
    try:
        told = pickle.dumps(Report(None, error, trace))
        pickle.loads(told)  # an exception with arguments of its own may be written and not read
    except Exception:
        substitute = RuntimeError(f"{type(error).__name__}: {error}")
        told = pickle.dumps(Report(None, substitute, trace))
    return told
