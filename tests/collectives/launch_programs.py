"""A program that launches itself, for test_launch: one rank commits a fault while the others wait for it."""

import os
import signal
import sys
import time

from collectives.launching.launch import launch, launched_size
from collectives.launching.launched import launched_rank
from collectives.launching.rank_main import run_rank
from collectives.user_error import UserError

NUM_RANKS = 4
FAULTS = {
    "timeout": lambda: throw(TimeoutError("step 2: no message from rank 0 in 5 s")),
    "sys.exit(0)": lambda: sys.exit(0),
    "os._exit(0)": lambda: os._exit(0),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "kill_watch": lambda: os.kill(os.getppid(), signal.SIGKILL),
}


def throw(error):
    raise error


def wait_for_ever(rank):
    from mpi4py import MPI

    buffer = bytearray(8)
    if rank % 2:
        MPI.COMM_WORLD.Recv(buffer, source=MPI.ANY_SOURCE, tag=7)
    request = MPI.COMM_WORLD.Irecv(buffer, source=MPI.ANY_SOURCE, tag=7)
    while not MPI.Request.Testall([request]):
        time.sleep(0.001)


def one_faults(name, victim):
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    MPI.COMM_WORLD.Barrier()
    if rank == 0:
        print("all ranks are here", flush=True)
    if rank == victim:
        FAULTS[name]()
    wait_for_ever(rank)


def before_mpi(name, victim):
    """What happens to one rank while the others wait for it in MPI_Init."""
    if launched_rank() == victim:
        process, number = {
            "stops": (os.getpid(), signal.SIGSTOP),
            "witness_ends": (os.getppid(), signal.SIGTERM),
            "witness_is_killed": (os.getppid(), signal.SIGKILL),
        }[name]
        os.kill(process, number)
        time.sleep(600)


def one_is_stopped(victim, process):
    """The others wait for it until one of them gives up."""
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    MPI.COMM_WORLD.Barrier()
    if rank == victim:
        os.kill(process, signal.SIGSTOP)
    time.sleep(1 if rank == 0 else 600)
    throw(TimeoutError("rank 1 has sent nothing"))


def returns(code):
    from mpi4py import MPI

    if MPI.COMM_WORLD.Get_rank() == 0:
        print(f"{MPI.COMM_WORLD.Get_size()} ranks")
        print("a word from rank 0", file=sys.stderr)
    return code


def all_raise(error):
    raise error("10 parameters do not split\nover 4 ranks")


def main():
    kind, *rest = sys.argv[1:]
    if kind == "returns":
        return returns(int(rest[0]))
    if kind == "all_raise":
        return all_raise({"bug": ValueError, "user": UserError}[rest[0]])
    if kind == "one_is_stopped":
        return one_is_stopped(int(rest[0]), os.getpid())
    if kind == "one_watch_is_stopped":
        return one_is_stopped(int(rest[0]), os.getppid())
    if kind == "returns_unwatched":
        os.kill(os.getppid(), signal.SIGSTOP)
        return 0
    if kind == "one_returns":
        from mpi4py import MPI

        rank = MPI.COMM_WORLD.Get_rank()
        return 0 if rank != int(rest[0]) else time.sleep(600)
    return one_faults(kind, int(rest[0]))


if __name__ == "__main__":
    if launched_size() is None:
        limits = {
            name.lower(): float(os.environ[name])
            for name in ("START_LIMIT", "LAST_RANK_LIMIT")
            if name in os.environ
        }
        sys.exit(launch(NUM_RANKS, "launch_programs", sys.argv[1:], **limits))
    if sys.argv[1] == "before_mpi":
        before_mpi(sys.argv[2], int(sys.argv[3]))
    run_rank(main)
