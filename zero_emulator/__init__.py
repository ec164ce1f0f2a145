"""Plain data parallelism and ZeRO-1, 2 and 3 on real ranks, every byte accounted for."""

import os

# Before NumPy is imported: threads of BLAS change the order of sums, and the ranks of a host fight for cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
