"""MPI's own collectives on the arrays of a trial: what ours are measured beside."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.arguments import InPlace
from collectives.bench.contender import Contender
from collectives.bench.trials import Trial

OPERATORS = {"sum": MPI.SUM, "prod": MPI.PROD, "max": MPI.MAX, "min": MPI.MIN}
Call = Callable[[MPI.Intracomm, Trial, MPI.Op], Callable[[], object]]


def mpi_contender(comm: MPI.Intracomm, collective: str, trial: Trial, operator: str) -> Contender:
    """The blocking call of that name, on a communicator of the caller's."""
    if collective == "reduce_scatter" and isinstance(trial.input, InPlace):
        trial = _result_first(trial)
    return Contender("mpi", "mpi", CALLS[collective](comm, trial, OPERATORS[operator]), trial)


def _result_first(trial: Trial) -> Trial:
    """In place MPI leaves the result at the beginning, where ours leaves it in the rank's own block."""
    [(_, block)] = trial.due
    assert trial.output is not None, "a reduce-scatter has an output on every rank"
    return replace(trial, due=((trial.output[: block.size], block),))


def _moves(method: Callable[..., object]) -> Call:
    return lambda comm, trial, _: partial(method, comm, _input(trial), trial.output)


def _reduces(method: Callable[..., object]) -> Call:
    return lambda comm, trial, op: partial(method, comm, _input(trial), trial.output, op)


def _broadcast(comm: MPI.Intracomm, trial: Trial, _: MPI.Op) -> Callable[[], object]:
    return partial(comm.Bcast, trial.output)


def _scatter(comm: MPI.Intracomm, trial: Trial, _: MPI.Op) -> Callable[[], object]:
    if isinstance(trial.input, InPlace):  # MPI says so where the block would go
        return partial(comm.Scatter, trial.output, MPI.IN_PLACE)
    return partial(comm.Scatter, trial.input, trial.output)


def _exscan(comm: MPI.Intracomm, trial: Trial, op: MPI.Op) -> Callable[[], object]:
    output = np.empty_like(trial.input) if trial.output is None else trial.output  # rank 0 needs one, too
    return partial(comm.Exscan, _input(trial), output, op)


def _barrier(comm: MPI.Intracomm, trial: Trial, _: MPI.Op) -> Callable[[], object]:
    return comm.Barrier


def _input(trial: Trial) -> Any:
    return MPI.IN_PLACE if isinstance(trial.input, InPlace) else trial.input


CALLS: dict[str, Call] = {
    "all_gather": _moves(MPI.Intracomm.Allgather),
    "reduce_scatter": _reduces(MPI.Intracomm.Reduce_scatter_block),
    "all_reduce": _reduces(MPI.Intracomm.Allreduce),
    "broadcast": _broadcast,
    "reduce": _reduces(MPI.Intracomm.Reduce),
    "gather": _moves(MPI.Intracomm.Gather),
    "scatter": _scatter,
    "all_to_all": _moves(MPI.Intracomm.Alltoall),
    "barrier": _barrier,
    "scan": _reduces(MPI.Intracomm.Scan),
    "exscan": _exscan,
}
