"""What a command prints, on stdout or not at all."""

import click

from collectives.launching.rank_output import OutputLostError


def print_out(text: str) -> None:
    """Print on stdout, at once. OutputLostError if it takes no more, which is no fault of this rank's."""
    try:
        click.echo(text, color=True)  # a rank writes into a pipe, where click would strip colours
    except OSError as error:
        raise OutputLostError(error.errno, error.strerror) from error
