"""MPI's own collectives, as the benchmark calls them, leave what ours leave: like is held against like."""

import pytest
from mpi4py import MPI

from collectives.bench.mpi_calls import CALLS, mpi_contender
from collectives.bench.subjects import SUBJECTS
from collectives.bench.values import Values
from collectives.operators import find_operator


@pytest.mark.parametrize("operator", ["sum", "max"])
def test_mpis_own_collectives_leave_what_is_due(operator: str) -> None:
    comm = MPI.COMM_WORLD.Dup()
    values = Values(comm.size, "float32", find_operator(operator))
    for collective, subject in SUBJECTS.items():
        for placement, make_trial in subject.placements.items():
            one = mpi_contender(comm, collective, make_trial(values, comm.rank, 300), operator)
            for _ in range(2):
                one.trial.reset()
                one.run()
                assert one.trial.count_wrong() == 0, (collective, placement)
    comm.Free()


def test_every_collective_has_its_call_of_mpi() -> None:
    assert CALLS.keys() == SUBJECTS.keys()
