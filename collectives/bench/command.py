"""`collectives bench`: what it is told is checked before any rank starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from collectives.transports import TRANSPORTS

if TYPE_CHECKING:
    from collectives.bench.settings import Settings

FILE = click.Path(path_type=Path)
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8")
FILES = ("json", "csv", "plot", "tune")
FIRST_THREE = "all_gather,reduce_scatter,all_reduce"


@click.command("bench", context_settings={"show_default": True})
@click.option("--ranks", type=int, help="World size.  [default: 4, or mpiexec's]")
@click.option("--collective", "collectives", default=FIRST_THREE, help="One or more, with commas.")
@click.option(
    "--algorithm",
    "algorithms",
    help="One or more, with commas: a name, auto, all, FILE.py:FUNCTION, or mpi for MPI's own.  "
    "[default: auto,mpi; all with --tune]",
)
@click.option("--sizes", default="4K-32M", help="Bytes of the largest array: 4K-32M, or 4K,1M.")
@click.option("--factor", type=click.IntRange(min=2), default=4, help="From one size of a range to the next.")
@click.option("--dtype", type=click.Choice(DTYPES), default="float32")
@click.option("--operator", type=click.Choice(["sum", "prod", "max", "min"]), default="sum")
@click.option("--transport", type=click.Choice(TRANSPORTS), default="mpi")
@click.option("--rounds", type=click.IntRange(min=1), default=20, help="In each, every algorithm runs once.")
@click.option("--warmup", type=click.IntRange(min=0), default=3, help="Rounds before them.")
@click.option("--check/--no-check", default=False, help="Compare the calls of all ranks, in the timed part.")
@click.option("--chunk-bytes", type=click.IntRange(min=1), help="Cut blocks into chunks of at most so many.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), default=60.0, help="Of a wait, in s."
)
@click.option("--json", type=FILE, help="Write all figures as JSON.")
@click.option("--csv", type=FILE, help="Write all figures as CSV.")
@click.option("--plot", type=FILE, help="Draw bus bandwidths, .svg or .png; needs matplotlib.")
@click.option("--tune", type=FILE, help="Write what was quickest as a table for algorithm auto.")
def bench_command(ranks: int | None, transport: str, **options: Any) -> None:
    """Time collectives by our algorithms and MPI's own, side by side, and check every result.

    Columns are those of nccl-tests, and beside them: p99 of the time, the share of what copying memory
    reaches on this machine, the median of the ratios to MPI's own call of the same round, and the bytes that
    the busiest rank sends. Times are medians, of the slowest rank. Exit code 1 if a result was wrong.

    COLLECTIVES_CHOICES=FILE makes a table that --tune has written the one of algorithm auto.
    """
    from collectives.bench.files import BenchFiles
    from collectives.bench.job import BenchJob
    from collectives.ranks import run_on_ranks, world_size

    files = {kind: options.pop(kind) for kind in FILES}
    try:
        num_ranks = world_size(ranks, transport)
        settings = _settings(num_ranks, transport, tune=files["tune"] is not None, **options)
        _check_files(files)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    run_on_ranks(num_ranks, transport, BenchJob(settings, transport, BenchFiles(**files)).run, "collectives")


def _settings(
    num_ranks: int,
    transport: str,
    *,
    tune: bool,
    collectives: str,
    algorithms: str | None,
    sizes: str,
    factor: int,
    **others: Any,
) -> "Settings":
    """What the words ask for, checked as far as it can be before ranks start. ValueError in one line."""
    from collectives.bench.own import load_own
    from collectives.bench.settings import ALL, MPI, NOT_IN_MPI, Settings
    from collectives.bench.sizes import parse_sizes
    from collectives.choice import AUTO

    if algorithms is None:
        ours = ALL if tune else AUTO
        algorithms = f"{ours},{MPI}" if transport == "mpi" and others["dtype"] not in NOT_IN_MPI else ours
    names, chosen = _words(algorithms), _words(collectives)
    own = load_own(names, chosen, num_ranks)
    if tune and names == [MPI]:
        raise ValueError(f"--tune chooses among the algorithms of the table, not {MPI} alone: add {ALL}")
    if own and tune:
        raise ValueError(f"--tune chooses among the algorithms of the table: leave out {', '.join(own)}")
    settings = Settings(chosen, names, parse_sizes(sizes, factor), own=own, **others)
    settings.check_on(num_ranks, transport)
    return settings


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in text.split(",")))


def _check_files(files: Mapping[str, Path | None]) -> None:
    from collectives.bench.plot import check_plot
    from collectives.files import check_apart, check_writable

    for path in files.values():
        if path is not None:
            check_writable(path)
    check_apart({f"--{kind}": path for kind, path in files.items()})
    if files["plot"] is not None:
        check_plot(files["plot"])
