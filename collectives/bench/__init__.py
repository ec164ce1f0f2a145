"""How long collectives take, beside MPI's own and beside what this machine can copy; every result checked."""
