"""The `zero-emulator` command: its options, checked before any rank starts."""

from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from collectives.command import run_command
from collectives.launching.launched import launched_size
from zero_emulator.bench import SIZES
from zero_emulator.bench_job import BENCH_RANKS, BenchJob
from zero_emulator.config import UNIFORM, RunConfig
from zero_emulator.cuts import CUTS
from zero_emulator.data import load_dataset
from zero_emulator.files import check_writable
from zero_emulator.jobs import Job
from zero_emulator.ledger_cli import ledger
from zero_emulator.losses import LOSSES
from zero_emulator.machine_memory import check_memory
from zero_emulator.optimizers import OPTIMIZERS
from zero_emulator.outputs import Outputs
from zero_emulator.padding import PADDINGS
from zero_emulator.precision import ITEMSIZE, PRECISIONS
from zero_emulator.ranks import DEFAULT_RANKS, run_on_ranks, world_size
from zero_emulator.rounding_cli import rounding
from zero_emulator.strategies import STRATEGIES

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT = RunConfig()
COMPARE_ITERATIONS = 50
"""Longer, and rounding alone drives training in another order of summation apart."""


def _widths(context: click.Context, option: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(width) for width in value.split(",") if width.strip())
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of widths: write 64,32") from None


PATH = click.Path(path_type=Path)

# What says None in RunConfig is left out here unless given: then the optimizer's own default holds.
OPTIONS = (
    click.option("--ranks", type=int, help=f"World size.  [default: {DEFAULT_RANKS}, or mpiexec's]"),
    click.option("--hidden", callback=_widths, default=",".join(map(str, DEFAULT.hidden)),
                 help="Widths of the hidden layers."),
    click.option("--batch-size", type=int, default=DEFAULT.batch_size, help="Samples of the global batch."),
    click.option("--micro-batches", type=int, default=DEFAULT.micro_batches, help="Parts of a batch."),
    click.option("--optimizer", type=click.Choice(list(OPTIMIZERS)), default=DEFAULT.optimizer),
    click.option("--lr", type=float, help="Learning rate.  [default: 0.003, sgd 0.1, muon 0.01]"),
    click.option("--momentum", type=float, help="Of sgd and muon."),
    click.option("--weight-decay", type=float, help="Of adamw and muon."),
    click.option("--loss", type=click.Choice(list(LOSSES)), default=DEFAULT.loss),
    click.option("--dtype", type=click.Choice(list(UNIFORM)), help="One dtype for all.  [default: float32]"),
    click.option("--precision", type=click.Choice(list(PRECISIONS)), help="Which dtype lives where."),
    click.option("--grad-dtype", type=click.Choice(list(ITEMSIZE)), help="Of persistent gradients."),
    click.option("--reduce-dtype", type=click.Choice(list(ITEMSIZE)), help="Of gradients on the wire."),
    click.option("--param-wire-dtype", type=click.Choice(list(ITEMSIZE)), help="Of weights on the wire."),
    click.option("--seed", type=int, default=DEFAULT.seed, help="Of the parameters and the batches."),
    click.option("--data", type=PATH, help=".npz with x and y, or .csv, label last.  [default: digits]"),
    click.option("--prefetch", type=int, default=DEFAULT.prefetch, help="Gathers in flight ahead (zero3)."),
    click.option("--keep-views", type=click.Choice(["none", "last", "all"]), default=DEFAULT.keep_views,
                 help="Layers whose views stay from forward to backward (zero3)."),
    click.option("--clip", type=float, help="Clip gradients to this global norm."),
    click.option("--padding", type=click.Choice(list(PADDINGS)), default=DEFAULT.padding,
                 help="Zeros behind a layer (even, 2n) or its tensors (rows), so that blocks are equal."),
    click.option("--cut", type=click.Choice(list(CUTS)), default=DEFAULT.cut,
                 help="Blocks of every layer, or whole layers to ranks."),
    click.option("--audit-every", type=int, default=DEFAULT.audit_every, help="Iterations between digests."),
    click.option("--time-limit", type=float, default=DEFAULT.time_limit, help="Seconds without news."),
    click.option("--record", type=PATH, help="Write the run record, JSON."),
    click.option("--events", type=PATH, help="Write a line of JSON for each message."),
    click.option("--transport", type=click.Choice(["mpi", "threads"]), default="mpi"),
    click.option("--quiet", is_flag=True, help="Print the verdict alone."),
    click.option("--json", is_flag=True, help="Print the record and nothing else."),
)  # fmt: skip


def _run_options(iterations: int) -> Callable[[F], F]:
    """The options of a run, with this many iterations by default."""

    def add(command: F) -> F:
        updates = click.option("--iterations", type=int, default=iterations, help="Optimizer updates.")
        for option in reversed((updates, *OPTIONS)):
            command = option(command)
        return command

    return add


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="zero-emulator")
def commands() -> None:
    """Plain data parallelism and ZeRO-1, 2 and 3 on real ranks, every byte accounted for.

    Exit codes: 0 every audit holds, 1 an audit failed, 2 wrong usage or input or a file that could not be
    written, 3 a rank died or a wait timed out.
    """


@commands.command()
@click.option("--strategy", type=click.Choice(list(STRATEGIES)), default=DEFAULT.strategy)
@_run_options(DEFAULT.iterations)
def train(strategy: str, **options: Any) -> None:
    """Train an MLP on --ranks ranks with one strategy, and audit it."""
    ranks, job = _prepare(strategy, **options)
    if not STRATEGIES[strategy].gathers_views and (job.config.prefetch or job.config.keep_views != "none"):
        raise click.UsageError(f"--prefetch and --keep-views are for zero3: {strategy} gathers no views")
    run_on_ranks(ranks, job.transport, job.train)


@commands.command()
@_run_options(COMPARE_ITERATIONS)
def compare(**options: Any) -> None:
    """Train the same MLP with every strategy and serially, and hold them against each other."""
    ranks, job = _prepare("ddp", **options)  # of all strategies it needs the most memory
    run_on_ranks(ranks, job.transport, job.compare)


@commands.command()
@click.option("--ranks", type=int, help=f"World size.  [default: {BENCH_RANKS}, or mpiexec's]")
@click.option("--size", "sizes", type=click.Choice([*SIZES, "all"]), default="all", help="Of the model.")
@click.option("--pairs", type=click.IntRange(min=1), default=5, help="Iterations of each kind, in turn.")
@click.option("--transport", type=click.Choice(["mpi", "threads"]), default="mpi")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def bench(ranks: int | None, sizes: str, pairs: int, transport: str, as_json: bool) -> None:
    """Time an iteration of each strategy, beside the same one without communication and a serial one.

    Over MPI also the engine's ring beside a bare loop of Sendrecv. Medians of pairs, as ratios.
    """
    try:
        num_ranks = world_size(ranks, transport, default=BENCH_RANKS)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    chosen = list(SIZES) if sizes == "all" else [sizes]
    run_on_ranks(num_ranks, transport, BenchJob(chosen, pairs, transport, as_json).run)


def _prepare(
    strategy: str,
    *,
    ranks: int | None,
    data: Path | None,
    record: Path | None,
    events: Path | None,
    transport: str,
    quiet: bool,
    json: bool,
    **settings: Any,
) -> tuple[int, Job]:
    """The world size and the job; a UsageError, before any rank has started, for what cannot work."""
    try:
        num_ranks = world_size(ranks, transport)
        config = RunConfig(strategy=strategy, **settings)
        dataset = load_dataset(data, config.policy.compute)
        config.check(dataset, num_ranks)
        # Somebody else's mpiexec may have put the other ranks on other machines.
        check_memory(config, dataset, num_ranks, ranks_here=num_ranks if launched_size() is None else 1)
        for path in (record, events):
            if path is not None:
                check_writable(path)
        _check_apart({"--data": data, "--record": record, "--events": events})
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    return num_ranks, Job(config, dataset, transport, Outputs(record, events, quiet, json))


def _check_apart(files: Mapping[str, Path | None]) -> None:
    """ValueError where two options name one file, which the later would replace."""
    named = [(option, path) for option, path in files.items() if path is not None]
    for (option, path), (other, second) in combinations(named, 2):
        if path.resolve() == second.resolve():
            raise ValueError(f"{option} and {other} are both {path}: name two files")


commands.add_command(ledger)
commands.add_command(rounding)


def main() -> NoReturn:
    """The `zero-emulator` command."""
    run_command(commands, "zero-emulator")
