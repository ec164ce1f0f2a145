"""The `collectives` command: what an algorithm does, its proof, how quick it is; the doctor; accounts."""

import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NoReturn

import click

from collectives.account.command import account_command
from collectives.algorithms import ALGORITHMS, Algorithm, at_root, find_algorithm
from collectives.bench.command import bench_command
from collectives.command import EXIT_REFUTED, print_refusal, run_command
from collectives.doctor.command import doctor_command
from collectives.launching.launched import launched_size
from collectives.prove_all import Outcome, Task, prove_all
from collectives.schedule import ScheduleError
from collectives.show import show, show_fault
from collectives.table import counted
from collectives.user_file import is_user_file, load_algorithm
from collectives.verify import MOST_ROOTS, roots

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
    """Collective algorithms as schedules: shown, proved and measured; and what a script sends by them."""


commands.add_command(doctor_command)
commands.add_command(account_command)


@commands.command("show")
@click.argument("algorithm")
@click.argument("collective")
@click.option("--ranks", type=click.IntRange(1, MOST_RANKS), default=4, show_default=True, help="World size.")
@click.option("--root", type=click.IntRange(0), help="Of a rooted collective; 0 unless you say so.")
def show_command(algorithm: str, collective: str, ranks: int, root: int | None) -> None:
    """Print the schedule of ALGORITHM for COLLECTIVE as a table, such as `show ring all_gather`.

    2>1 sends block 2 to rank 1; 0<3 receives block 0 from rank 3; 0<3+ combines it with what is there.
    ALGORITHM may be your own, FILE.py:FUNCTION.
    """
    with _usage():
        find = load_algorithm if is_user_file(algorithm) else find_algorithm
        found = find(algorithm, collective)
        if root is not None:
            found = at_root(found, root, ranks)
        text = show(found, ranks)
    click.echo(text)


@commands.command("verify")
@click.argument("algorithm", required=False)
@click.option("--collective", help="Only this one.  [default: all, or what FUNCTION is named after]")
@click.option("--ranks", callback=_range, default="1-64", show_default=True, help="World sizes: 4, or 1-64.")
@click.option("--in-order", is_flag=True, help="FUNCTION must keep its operands in rank order.")
def verify_command(algorithm: str | None, collective: str | None, ranks: range, in_order: bool) -> None:
    """Prove ALGORITHM, or every built-in one, for a range of world sizes.

    Every contribution arrives exactly once, in rank order unless the algorithm is for operators that commute,
    every receive meets its send, no rank can hang even if every send waits for its receive, and steps and
    blocks sent are those that the algorithm declares. Exit code 1 and a counterexample if not.

    ALGORITHM may be your own, FILE.py:FUNCTION: a generator of (rank, world_size), and of root where the
    collective has one, or an Algorithm.
    """
    with _usage():
        chosen = _choose(algorithm, collective, in_order)
    sizes_of = {one: [size for size in ranks if one.limit.allows(size)] for one in chosen}
    tasks = [
        (one.at(root), size) for one, sizes in sizes_of.items() for size in sizes for root in roots(one, size)
    ]
    with closing(prove_all(tasks)) as outcomes:
        proved = zip(tasks, outcomes, strict=True)
        for one, sizes in sizes_of.items():
            if not sizes:
                needed = one.limit.words
                click.echo(f"no claim {one} on {_sizes(ranks)}: it needs a world size that is {needed}")
                continue
            for size in sizes:
                for _ in roots(one, size):
                    last = _proved(*next(proved))
            least = f" that are {one.limit.words}" if len(sizes) < len(ranks) else ""
            click.echo(
                f"proved   {one} on {_sizes(ranks)}{least}{_roots(one, sizes[-1])}, "
                f"{counted(last.num_steps, 'step')} and "
                f"{_blocks(last.num_blocks / one.parts)} sent on {sizes[-1]}"
            )


def _proved(task: Task, outcome: Outcome) -> Outcome:
    """The outcome; or the counterexample is printed, in words and in the schedule, and the command ends."""
    if outcome.fault is not None:
        click.echo(f"refuted  {outcome.fault}")
        if outcome.places:
            click.echo(show_fault(*task, outcome.places))
        sys.exit(EXIT_REFUTED)
    return outcome


def _blocks(number: float) -> str:
    """Half of one, too: an algorithm may cut blocks in parts."""
    return f"{number:g} {'block' if number == 1 else 'blocks'}"


def _sizes(ranks: range) -> str:
    return f"{ranks[0]} to {ranks[-1]} ranks" if len(ranks) > 1 else counted(ranks[0], "rank")


def _roots(algorithm: Algorithm, world_size: int) -> str:
    proved = roots(algorithm, world_size)
    if proved == [None]:
        return ""
    more = "" if world_size == len(proved) else f" up to {MOST_ROOTS} ranks, {len(proved)} beyond"
    return f", every root{more}"


def _choose(name: str | None, collective: str | None, in_order: bool) -> list[Algorithm]:
    if in_order and not (name and is_user_file(name)):
        raise ValueError("--in-order is for FILE.py:FUNCTION: built-in algorithms say what they keep")
    if name is not None and is_user_file(name):
        return [load_algorithm(name, collective, in_order, say="--collective COLLECTIVE")]
    if name is not None and collective is not None:
        return [find_algorithm(name, collective)]
    chosen = [
        algorithm
        for algorithm in ALGORITHMS.values()
        if name in (None, algorithm.name) and collective in (None, algorithm.collective.name)
    ]
    if not chosen:
        known = ", ".join(map(str, ALGORITHMS.values()))
        asked = collective if name is None else name
        raise ValueError(f"nothing to prove for {asked!r}: there are {known}; your own is FILE.py:FUNCTION")
    return chosen


@contextmanager
def _usage() -> Iterator[None]:
    """What cannot be done, or shown for want of a step, is wrong usage."""
    try:
        yield
    except (ValueError, ScheduleError) as error:
        raise click.UsageError(str(error)) from error


commands.add_command(bench_command)

RANKED = (bench_command, account_command)
"""Commands whose ranks meet. Under an mpiexec each process runs the others for itself."""


def _refuse(message: str) -> NoReturn:
    """Say it once, and exit on all ranks, if this process is one of several."""
    if launched_size() is None or not {command.name for command in RANKED} & {*sys.argv[1:2]}:
        print_refusal(message)
    from collectives.ranks import refuse_on_ranks  # NumPy, which show and verify can do without

    refuse_on_ranks(message)


def main() -> NoReturn:
    """The `collectives` command."""
    run_command(commands, "collectives", _refuse)
