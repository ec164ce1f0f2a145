"""Ranks as processes of this machine, forked from ours: as quick to start as threads, without a shared GIL.

No MPI is needed, and nothing has a name that could be left behind: pipes and memory that are gone with the
last process. From the outside in: `world` starts the ranks and `job` is what it hears of them; `rank` is one
of them from its fork to its last word, `transport` its end of the wire; `messages` brings the two ends of a
message together, by records on the `wire`, out of the sender's `memory` or in `pieces`.
"""

from collectives.transports.processes.world import run_processes

__all__ = ["run_processes"]
