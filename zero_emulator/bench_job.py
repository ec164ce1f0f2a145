"""What every rank of `zero-emulator bench` does; rank 0 prints."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from collectives.command import EXIT_OK
from collectives.environment import describe_environment
from collectives.printing import print_out
from collectives.table import counted, format_table
from collectives.transports.base import Transport
from zero_emulator.bench import IterationTime, time_strategies
from zero_emulator.documents import Json

BENCH_SCHEMA = "zero-emulator/bench/2"
BENCH_RANKS = 2
RINGS = ((4 << 10, 200), (64 << 10, 100), (1 << 20, 10))
"""Bytes of a block, and calls a measurement."""


@dataclass(frozen=True)
class BenchJob:
    """Which sizes, how often, and how to print."""

    sizes: Sequence[str]
    pairs: int
    transport: str
    as_json: bool

    def run(self, transport: Transport) -> int:
        rings = self._rings() if self.transport == "mpi" and transport.world_size > 1 else []
        if transport.rank == 0 and not self.as_json and rings:
            print_out(_ring_table(rings, transport.world_size))
        iterations = []
        for size in self.sizes:
            iterations.append(time_strategies(size, transport, pairs=self.pairs))
            if transport.rank == 0 and not self.as_json:
                print_out(_iteration_table(iterations[-1], transport.world_size))
        if transport.rank == 0 and self.as_json:
            document = {
                "schema": BENCH_SCHEMA,
                "environment": describe_environment(self.transport),
                "world_size": transport.world_size,
                "rings": rings,
                "iterations": [one.as_json() for at_size in iterations for one in at_size],
            }
            print_out(json.dumps(document))
        return EXIT_OK

    def _rings(self) -> list[Json]:
        from collectives.bench.bare_ring import time_rings  # needs MPI

        pairs = 8 * self.pairs + 1  # they are short
        return [
            one._asdict()
            for block_bytes, calls in RINGS
            for one in time_rings(block_bytes, calls=calls, pairs=pairs)
        ]


def _ring_table(rings: Sequence[Json], world_size: int) -> str:
    head = ["ring", "block bytes", "bare loop", "engine/bare", "plain call/bare", "ledger/engine"]
    rows = [
        [
            one["collective"],
            str(one["block_bytes"]),
            f"{one['bare_seconds'] * 1e6:.1f} us",
            *(f"{one[name]:.3f}" for name in ("engine_ratio", "call_ratio", "ledger_ratio")),
        ]
        for one in rings
    ]
    return f"the engine beside a bare loop of Sendrecv, {counted(world_size, 'rank')}\n" + format_table(
        head, rows, right=(1, 2, 3, 4, 5)
    )


def _iteration_table(iterations: Sequence[IterationTime], world_size: int) -> str:
    head = ["iteration", "seconds", "/ silent", "/ serial", "computing", "waiting", "updating"]
    rows = [
        [
            one.strategy,
            f"{one.seconds:.4f}",
            f"{one.over_silent:.3f}",
            f"{one.over_serial:.3f}",
            *(f"{share:.0%}" for share in (one.computing, one.waiting, one.updating)),
        ]
        for one in iterations
    ]
    title = f"\n{iterations[0].size}: {iterations[0].num_params} parameters, {counted(world_size, 'rank')}\n"
    return title + format_table(head, rows, right=(1, 2, 3, 4, 5, 6))
