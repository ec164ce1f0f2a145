"""Every algorithm of the table goes through the mill that users put theirs through."""

import pytest

from collectives.algorithms import ALGORITHMS
from collectives.testing import matrix

pytestmark = pytest.mark.usefixtures("run_ranks")  # so a session of real ranks takes it as one of its tests

WORLD_SIZES = (1, 2, 3, 4, 5, 6, 8)
"""One of each kind; proofs go on to 16."""

test_an_algorithm_of_the_table_survives_the_matrix = matrix(
    *ALGORITHMS.values(), world_sizes=WORLD_SIZES, transports=("threads", "mpi")
)
