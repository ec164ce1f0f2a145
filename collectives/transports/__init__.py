"""How bytes get from rank to rank: one file each, one interface."""

TRANSPORTS = ("mpi", "threads", "processes")
"""The first alone needs an MPI library, and an mpiexec to start its ranks; the others are our own."""
