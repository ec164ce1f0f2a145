"""`collectives account`: anybody's mpi4py script, and every byte that it has sent."""
