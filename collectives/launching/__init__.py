"""How a command started outside MPI becomes N ranks, and how one failing rank ends them all.

The launcher (launch) starts mpiexec; mpiexec starts a witness for each rank; a witness starts its rank
(rank_main) and sees how it ends. They tell each other through small files (rank_notes), and the ranks print
through pipes (rank_output). The launcher waits as long as it makes sense (watch), and says what it comes to
(verdict). Nothing here imports NumPy: every process on the way pays for its imports.
"""
