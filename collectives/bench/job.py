"""What every rank of `collectives bench` does; rank 0 prints and writes files."""

from dataclasses import dataclass

import click

from collectives.bench.bench import Bench
from collectives.bench.figures import Figures
from collectives.bench.files import SCHEMA, BenchFiles
from collectives.bench.report import Report
from collectives.bench.settings import MPI, Settings
from collectives.command import EXIT_OK, EXIT_REFUTED, EXIT_USAGE
from collectives.environment import describe_environment
from collectives.printing import print_out
from collectives.table import counted
from collectives.transports.base import Transport


@dataclass(frozen=True)
class BenchJob:
    """What to measure, over which transport, and what to leave behind."""

    settings: Settings
    transport: str
    files: BenchFiles

    def run(self, transport: Transport) -> int:
        """The exit code: 1 if a result was wrong, 2 if a file could not be written."""
        bench = Bench(self.settings, transport)
        speaks = transport.rank == 0
        if speaks:
            print_out(self._title(bench))
        found: list[Figures] = []
        for collective in self.settings.collectives:
            report = Report(self.settings.names(collective, transport.world_size))
            if speaks:
                print_out(f"\n{collective}\n{report.head()}")
            for placed in bench.lines(collective):
                found += placed
                if speaks:
                    print_out(report.line(placed))
        code = EXIT_REFUTED if any(one.wrong for one in found) else EXIT_OK
        if speaks and not self._write(bench, found):
            code = code or EXIT_USAGE
        codes: list[int] = transport.exchange(code, limit=None)  # a slow disk must not cost the measurement
        return codes[0]

    def _title(self, bench: Bench) -> str:
        mpi = MPI in self.settings.algorithms
        limit = f"{bench.copies_a_second / 1e9:.2f} GB/s"
        copied = f"np.copyto of {bench.copied_bytes >> 20} MiB"
        return (
            f"{counted(bench.transport.world_size, 'rank')} over {self._wire()}, medians of "
            f"{counted(self.settings.rounds, 'round')}\n"
            f"/copy: busbw over the {limit} that each rank reaches when all copy memory ({copied})"
            + ("\n/mpi: time over that of MPI's own call in the same round, the median" if mpi else "")
        )

    def _wire(self) -> str:
        library = describe_environment(self.transport)["mpi_library"]
        return " ".join(library.partition(",")[0].split()) if library else self.transport

    def _write(self, bench: Bench, found: list[Figures]) -> bool:
        document = {
            "schema": SCHEMA,
            "environment": describe_environment(self.transport),
            "world_size": bench.transport.world_size,
            "settings": self.settings.as_json(),
            "copy_limit": {"bytes_a_second": bench.copies_a_second, "copied_bytes": bench.copied_bytes},
            "figures": [one.as_json() for one in found],
        }
        unwritten = list(self.files.write(document, found))
        for line in unwritten:
            click.echo(f"collectives: {line}", err=True)
        return not unwritten
