"""`zero-emulator rounding`: what a BF16 ring costs in precision."""

import json

import click

from collectives.table import format_table
from zero_emulator.rounding import rounding_errors

ROUNDING_SCHEMA = "zero-emulator/rounding/1"
MAX_RANKS = 256
"""Each is a thread."""


def _world_sizes(context: click.Context, option: click.Parameter, value: str) -> list[int]:
    try:
        sizes = [int(size) for size in value.split(",")]
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of world sizes: write 2,4,8") from None
    for size in sizes:
        if not 1 <= size <= MAX_RANKS:
            raise click.BadParameter(f"{size} ranks: give 1 to {MAX_RANKS}")
    return sizes


@click.command()
@click.option("--ranks", callback=_world_sizes, default="2,4,8,16,32,64", help="World sizes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def rounding(ranks: list[int], as_json: bool) -> None:
    """Measure the error of a sum of BF16 gradients over ranks: added in BF16, and added in FP32."""
    errors = rounding_errors(ranks)
    if as_json:
        document = {"schema": ROUNDING_SCHEMA, "errors": [error._asdict() for error in errors]}
        click.echo(json.dumps(document))
        return
    rows = [[str(n), f"{every_hop:.2e}", f"{once:.2e}"] for n, every_hop, once in errors]
    click.echo(format_table(["ranks", "rounded every hop", "rounded once"], rows, right=(0, 1, 2)))
