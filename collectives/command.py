"""How a command ends: one line that says what is wrong and what to do, and a code."""

import sys
from typing import NoReturn

import click

EXIT_OK, EXIT_REFUTED, EXIT_USAGE, EXIT_RANK_DIED = 0, 1, 2, 3
"""All holds; a proof or an audit failed; wrong usage or input; a rank died or a wait timed out."""


def run_command(command: click.Command, name: str) -> NoReturn:
    """Run a click command and exit, with its faults in one line each on stderr."""
    try:
        code = command.main(prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(EXIT_USAGE)
    except click.ClickException as error:
        click.echo(f"{name}: {' '.join(error.format_message().split())}", err=True)
        sys.exit(EXIT_USAGE)
    except click.Abort:
        sys.exit(130)  # as a shell reports Ctrl-C
    sys.exit(code or EXIT_OK)
