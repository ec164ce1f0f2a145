"""Option values that are more than a number, read by click."""

from collections.abc import Callable

import click


def parsed(parse: Callable[[str], int]) -> Callable[..., int | None]:
    """A callback that turns the text of an option into a number; its ValueError is a usage error."""

    def callback(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return callback
