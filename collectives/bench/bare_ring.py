"""The ring as one writes it by hand, a bare loop of Sendrecv: what the engine is measured against."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from collectives.bench.figures import ratio_of_pairs
from collectives.communicator import Communicator
from collectives.ledger import Ledger
from collectives.transports.metered import MeteredTransport
from collectives.transports.mpi import MPITransport

Array = npt.NDArray[np.float32]


def bare_all_gather(comm: MPI.Intracomm, block: Array, output: Array) -> None:
    """Every rank's block in ``output`` (world_size, block size)."""
    rank, world_size = comm.rank, comm.size
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    output[rank] = block
    for step in range(world_size - 1):
        outgoing, incoming = output[(rank - step) % world_size], output[(rank - step - 1) % world_size]
        comm.Sendrecv(outgoing, right, 0, incoming, left, 0)


def bare_reduce_scatter(comm: MPI.Intracomm, blocks: Array, output: Array, scratch: Array) -> None:
    """The sum of all ranks' ``blocks[rank]``; ``scratch`` has room for two blocks."""
    rank, world_size = comm.rank, comm.size
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    outgoing = blocks[(rank - 1) % world_size]
    for step in range(world_size - 1):
        incoming = output if step == world_size - 2 else scratch[step % 2]
        comm.Sendrecv(outgoing, right, 0, incoming, left, 0)
        np.add(incoming, blocks[(rank - step - 2) % world_size], out=incoming)
        outgoing = incoming


class RingTime(NamedTuple):
    """Medians over pairs of runs side by side: seconds of the bare loop, and ratios to it."""

    collective: str
    block_bytes: int
    bare_seconds: float
    engine_ratio: float  # engine / bare
    call_ratio: float  # a plain call, arguments checked and places worked out each time / bare
    ledger_ratio: float  # engine with the ledger / engine without


def time_rings(block_bytes: int, *, calls: int, pairs: int) -> list[RingTime]:
    """All-gather and reduce-scatter of float32 blocks: bare, by the engine, and by the engine with a ledger.

    Every rank of COMM_WORLD calls it; a pair is ``calls`` calls of each, one after the other.
    """
    comm = MPI.COMM_WORLD.Dup()
    ledger = Ledger()
    plain = Communicator(MPITransport(comm), check=False)
    metered = Communicator(MeteredTransport(MPITransport(comm), ledger), check=False)
    size = block_bytes // 4
    block, blocks = np.ones(size, np.float32), np.ones((comm.size, size), np.float32)
    result, results, scratch = np.empty_like(block), np.empty_like(blocks), np.empty((2, size), np.float32)

    gather = plain.prepare("all_gather", block, results)
    scatter = plain.prepare("reduce_scatter", blocks, result)
    variants: dict[str, tuple[Callable[[], Any], ...]] = {
        "all_gather": (
            lambda: bare_all_gather(comm, block, results),
            gather.run,
            lambda: plain.all_gather(block, results).wait(),
            metered.prepare("all_gather", block, results).run,
        ),
        "reduce_scatter": (
            lambda: bare_reduce_scatter(comm, blocks, result, scratch),
            scatter.run,
            lambda: plain.reduce_scatter(blocks, result).wait(),
            metered.prepare("reduce_scatter", blocks, result).run,
        ),
    }
    found = []
    for collective, functions in variants.items():
        seconds: list[list[float]] = []
        for _ in range(pairs + 1):
            seconds.append([_time(comm, function, calls) for function in functions])
            ledger.drain()
        del seconds[0]  # the first round warms up
        bare, engine, call, counted = zip(*seconds, strict=True)
        found.append(
            RingTime(
                collective, block_bytes, median(bare),
                ratio_of_pairs(engine, bare), ratio_of_pairs(call, bare), ratio_of_pairs(counted, engine),
            )
        )  # fmt: skip
    for one in (plain, metered):
        one.close()
    comm.Free()
    return found


def _time(comm: MPI.Intracomm, function: Callable[[], Any], calls: int) -> float:
    comm.Barrier()
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls
