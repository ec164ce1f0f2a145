"""`collectives doctor`: what is wrong with this machine for MPI ranks, and what mends it."""

import sys

import click

from collectives.command import EXIT_REFUTED
from collectives.launching.launch import MAX_RANKS, launched_size


@click.command("doctor")
@click.option(
    "--ranks", type=click.IntRange(1, MAX_RANKS), default=4, show_default=True, help="Ranks that you want."
)
def doctor_command(ranks: int) -> None:
    """Say what is wrong with this machine for MPI ranks, and the command that mends it.

    Starts two ranks to see whether they meet; every question has a limit. Exit code 1 if there is a fault;
    what is a note works, only worse.
    """
    from collectives.doctor.examine import examine
    from collectives.doctor.findings import findings

    if launched_size() is not None:
        raise click.UsageError("doctor starts ranks of its own: run it without mpiexec")
    facts = examine(ranks)
    found = findings(facts)
    for finding in found:
        click.echo(f"{'fault' if finding.is_fault else 'note '}  {finding.wrong}\n  mend  {finding.mend}")
    if any(finding.is_fault for finding in found):
        sys.exit(EXIT_REFUTED)
    click.echo(f"no fault: {facts.library}, {facts.launchers[0].path}, 2 ranks in a world of 2")
