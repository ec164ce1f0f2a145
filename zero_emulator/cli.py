"""The `zero-emulator` command: what it is told is checked before any rank starts."""

import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from collectives.command import print_refusal, run_command
from collectives.files import check_apart, check_writable
from collectives.launching.launched import launched_size
from collectives.ranks import refuse_on_ranks, run_on_ranks, world_size
from collectives.transports import TRANSPORTS
from zero_emulator.bench import SIZES
from zero_emulator.bench_job import BENCH_RANKS, BenchJob
from zero_emulator.chosen import named
from zero_emulator.config import RunConfig
from zero_emulator.data import load_dataset
from zero_emulator.expected_traffic import called
from zero_emulator.explain_cli import explain_record
from zero_emulator.jobs import Job
from zero_emulator.ledger_cli import ledger
from zero_emulator.machine_memory import check_memory
from zero_emulator.outputs import Outputs
from zero_emulator.pipeline_cli import show_pipeline
from zero_emulator.reference_option import with_reference
from zero_emulator.rounding_cli import rounding
from zero_emulator.run_options import DEFAULT, PATH, run_options
from zero_emulator.strategies import STRATEGIES
from zero_emulator.weight_files import check_saved

COMPARE_ITERATIONS = 50
"""Longer, and rounding alone drives training in another order of summation apart."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="zero-emulator")
def commands() -> None:
    """Plain data parallelism and ZeRO-1, 2 and 3 on real ranks, every byte accounted for.

    Exit codes: 0 every audit holds, 1 an audit failed, 2 wrong usage or input or a file that could not be
    written, 3 a rank died or a wait timed out.
    """


@commands.command()
@click.option("--strategy", type=click.Choice(list(STRATEGIES)), default=DEFAULT.strategy)
@click.option("--save", type=PATH, help="Write the trained weights, .npz: layer0.weight, layer0.bias, ...")
@run_options(DEFAULT.iterations)
def train(strategy: str, **options: Any) -> None:
    """Train an MLP on --ranks ranks with one strategy, and audit it."""
    ranks, job = _prepare(strategy, **options)
    if not STRATEGIES[strategy].gathers_views and (job.config.prefetch or job.config.keep_views != "none"):
        raise click.UsageError(f"--prefetch and --keep-views are for zero3: {strategy} gathers no views")
    if job.config.objection is not None:
        raise click.UsageError(job.config.objection)
    collectives = called(job.config)
    for algorithm in job.config.algorithm:
        if not collectives & named(algorithm).keys():
            raise click.UsageError(
                f"--algorithm {algorithm}: {strategy} calls {' and '.join(sorted(collectives))}"
            )
    run_on_ranks(ranks, job.transport, job.train, "zero_emulator")


@commands.command()
@run_options(COMPARE_ITERATIONS)
def compare(**options: Any) -> None:
    """Train the same MLP with every strategy and serially, and hold them against each other."""
    ranks, job = _prepare("ddp", **options)  # of all strategies it needs the most memory
    run_on_ranks(ranks, job.transport, job.compare, "zero_emulator")


@commands.command()
@click.option("--ranks", type=int, help=f"World size.  [default: {BENCH_RANKS}, or mpiexec's]")
@click.option("--size", "sizes", type=click.Choice([*SIZES, "all"]), default="all", help="Of the model.")
@click.option("--pairs", type=click.IntRange(min=1), default=5, help="Iterations of each kind, in turn.")
@click.option("--transport", type=click.Choice(TRANSPORTS), default="mpi")
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
    run_on_ranks(num_ranks, transport, BenchJob(chosen, pairs, transport, as_json).run, "zero_emulator")


def _prepare(
    strategy: str,
    *,
    ranks: int | None,
    data: Path | None,
    record: Path | None,
    events: Path | None,
    save: Path | None = None,
    transport: str,
    quiet: bool,
    json: bool,
    reference: Path | None,
    kl: float | None,
    reference_on: str,
    **settings: Any,
) -> tuple[int, Job]:
    """The world size and the job; a UsageError, before any rank has started, for what cannot work."""
    try:
        num_ranks = world_size(ranks, transport)
        config = RunConfig(strategy=strategy, **settings)
        dataset = load_dataset(data, config.policy.compute)
        config, frozen = with_reference(config, dataset, reference, kl, reference_on)
        config.check(dataset, num_ranks)
        # Somebody else's mpiexec may have put the other ranks on other machines.
        check_memory(config, dataset, num_ranks, ranks_here=num_ranks if launched_size() is None else 1)
        if save is not None:
            check_saved(config.partition(dataset, num_ranks).layers)
        for path in (record, events, save):
            if path is not None:
                check_writable(path)
        read = {"--data": data, "--reference": reference}
        check_apart(read | {"--record": record, "--events": events, "--save": save})
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    return num_ranks, Job(config, dataset, transport, Outputs(record, events, save, quiet, json), frozen)


ALONE = (explain_record, ledger, rounding, show_pipeline)
"""Commands that start no rank. Under an mpiexec each process runs them for itself."""

for command in ALONE:
    commands.add_command(command)


def _has_ranks() -> bool:
    """Whether this process is a rank, of a command whose ranks meet."""
    return launched_size() is not None and not {command.name for command in ALONE} & {*sys.argv[1:2]}


def main() -> NoReturn:
    """The `zero-emulator` command."""
    run_command(commands, "zero-emulator", refuse_on_ranks if _has_ranks() else print_refusal)
