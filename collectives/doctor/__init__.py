"""What keeps MPI ranks from running on this machine, and the command that mends it.

The facts are gathered at the edge (examine), within limits; what they mean is a pure function (findings).
"""
