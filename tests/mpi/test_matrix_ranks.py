"""The matrix on real ranks: what fails on one of them fails on all, so that none waits for another."""

import pytest
from mpi4py import MPI

from collectives.testing.check_error import CheckError
from collectives.testing.ranks import run_mpi
from collectives.transports.base import Transport


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (CheckError("bytes", "too many"), "^bytes: too many"),
        (OSError("gone"), "^run: rank . raised OSError: gone"),
    ],
)
def test_a_check_that_fails_on_one_rank_fails_on_all(error: Exception, told: str) -> None:
    def body(transport: Transport) -> None:
        if transport.rank == transport.world_size - 1:
            raise error

    with pytest.raises(CheckError, match=told):
        run_mpi(MPI.COMM_WORLD.size, body)
