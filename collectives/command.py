"""How a command ends: one line that says what is wrong and what to do, and a code."""

import contextlib
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from collectives.quiet_start import raise_on_ctrl_c
from collectives.streams import secure_streams

EXIT_OK, EXIT_REFUTED, EXIT_USAGE, EXIT_RANK_DIED = 0, 1, 2, 3
"""All holds; a proof or an audit failed; wrong usage or input; a rank died, a wait timed out, or the command
itself could not go on."""


def print_refusal(message: str) -> NoReturn:
    """Say what is wrong with what the command was told, and exit."""
    click.echo(message, err=True)
    sys.exit(EXIT_USAGE)


def run_command(
    command: click.Command, name: str, refuse: Callable[[str], NoReturn] = print_refusal
) -> NoReturn:
    """Run a click command and exit, with its faults in one line each on stderr.

    ``refuse`` is called with the line for wrong usage or input, after which nothing else happens.
    """
    try:
        raise_on_ctrl_c()
        _secure_streams()
        code = _run(command, name)
        sys.stdout.flush()  # here, where a full disk can still be told
    except click.ClickException as error:
        refuse(f"{name}: {_line(error.format_message())}")
    except click.Abort:
        code = 130  # as a shell reports Ctrl-C
    except Exception as error:
        _tell(name, error)
        code = EXIT_RANK_DIED
    sys.exit(code)


def _secure_streams() -> None:
    try:
        secure_streams()
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _run(command: click.Command, name: str) -> Any:
    # Not command.main: it ends a broken pipe in its own way, which differs between versions of click.
    try:
        with command.make_context(name, sys.argv[1:]) as context:
            return command.invoke(context) or EXIT_OK
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return EXIT_USAGE
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except SystemExit as ended:
        return ended.code
    except (KeyboardInterrupt, EOFError):
        raise click.Abort from None


def _tell(name: str, error: Exception) -> None:
    if isinstance(error, BrokenPipeError):
        what = "nobody reads the output any more"
    elif isinstance(error, OSError):
        what = str(error)
    else:
        what = f"{type(error).__name__}: {error}"
    click.echo(f"{name}: {_line(what)}", err=True)
    if isinstance(error, OSError):
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.close()  # or Python writes the rest at its end, and complains with another code


def _line(text: str) -> str:
    return " ".join(text.split())
