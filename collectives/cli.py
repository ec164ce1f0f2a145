"""`collectives show` and `collectives verify`: what an algorithm does, and the proof that it works."""

import re
import sys
from collections.abc import Iterator
from typing import NoReturn

import click

from collectives.algorithms import ALGORITHMS, Algorithm, find_algorithm
from collectives.command import EXIT_REFUTED, run_command
from collectives.schedule import ScheduleError
from collectives.show import show
from collectives.table import counted
from collectives.verify import verify

MOST_RANKS = 1024
"""A proof takes time with the square of the world size, minutes for this one."""


def _range(context: click.Context, option: click.Parameter, value: str) -> range:
    """``4`` or ``1-64``."""
    text = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", value)
    sizes = range(int(text[1]), int(text[2] or text[1]) + 1) if text else range(0)
    if not sizes or sizes[0] < 1 or sizes[-1] > MOST_RANKS:
        raise click.BadParameter(
            f"{value!r} is no range of world sizes: write 4, or 1-64, up to {MOST_RANKS}"
        )
    return sizes


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="zero-emulator")
def commands() -> None:
    """Collective algorithms as schedules: shown and proved without a network."""


@commands.command("show")
@click.argument("algorithm")
@click.argument("collective")
@click.option("--ranks", type=click.IntRange(1, MOST_RANKS), default=4, show_default=True, help="World size.")
def show_command(algorithm: str, collective: str, ranks: int) -> None:
    """Print the schedule of ALGORITHM for COLLECTIVE as a table, such as `show ring all_gather`.

    2>1 sends block 2 to rank 1; 0<3 receives block 0 from rank 3; 0<3+ combines it with what is there.
    """
    click.echo(show(_find(algorithm, collective), ranks))


@commands.command("verify")
@click.argument("algorithm", required=False)
@click.option("--collective", help="Only this collective; all of them by default.")
@click.option("--ranks", callback=_range, default="1-64", show_default=True, help="World sizes: 4, or 1-64.")
def verify_command(algorithm: str | None, collective: str | None, ranks: range) -> None:
    """Prove ALGORITHM, or every built-in one, for a range of world sizes.

    Every contribution arrives exactly once, every receive meets its send, and no rank can hang even if every
    send waits for its receive. Exit code 1 and a counterexample if not.
    """
    for chosen in _choose(algorithm, collective):
        try:
            proofs = [verify(chosen, world_size) for world_size in ranks]
        except ScheduleError as error:
            click.echo(f"refuted  {error}")
            sys.exit(EXIT_REFUTED)
        steps = max(proofs[-1].steps)
        click.echo(f"proved   {chosen} on {_sizes(ranks)}, {counted(steps, 'step')} on {ranks[-1]}")


def _sizes(ranks: range) -> str:
    return f"{ranks[0]} to {ranks[-1]} ranks" if len(ranks) > 1 else counted(ranks[0], "rank")


def _choose(name: str | None, collective: str | None) -> Iterator[Algorithm]:
    if name is not None and collective is not None:
        yield _find(name, collective)
        return
    chosen = [
        algorithm
        for algorithm in ALGORITHMS.values()
        if name in (None, algorithm.name) and collective in (None, algorithm.collective.name)
    ]
    if not chosen:
        known = ", ".join(map(str, ALGORITHMS.values()))
        raise click.UsageError(f"nothing to prove for {name or collective!r}: there are {known}")
    yield from chosen


def _find(name: str, collective: str) -> Algorithm:
    try:
        return find_algorithm(name, collective)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def main() -> NoReturn:
    """The `collectives` command."""
    run_command(commands, "collectives")
