"""`zero-emulator show-pipeline`: its options, and the pipeline they describe."""

import json

import click

from zero_emulator.pipeline import SCHEDULES
from zero_emulator.pipeline_document import pipeline_document
from zero_emulator.pipeline_report import describe_pipeline, describe_stage

DEGREE = click.IntRange(min=1)
MOST_FORWARDS = 20_000
"""Of all stages: the orders of so many are made and checked in a few seconds."""


@click.command("show-pipeline")
@click.option("--schedule", type=click.Choice(list(SCHEDULES)), default="1f1b")
@click.option("--pipeline", "stages", type=DEGREE, default=4, help="Stages that split the layers.")
@click.option("--chunks", type=DEGREE, default=1, help="Parts of the model on each stage.")
@click.option("--micro-batches", type=DEGREE, default=8, help="Gradients that add up to an iteration's.")
@click.option("--messages", is_flag=True, help="Show in the table what is sent and received, too.")
@click.option("--stage", type=int, help="List all that this one does instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def show_pipeline(
    schedule: str,
    stages: int,
    chunks: int,
    micro_batches: int,
    messages: bool,
    stage: int | None,
    as_json: bool,
) -> None:
    """Show which stage of a pipeline does what when, and what it waits, holds and reduces.

    The orders are those of a run, checked against each other; the time is modelled. No rank starts.
    """
    forwards = stages * chunks * micro_batches
    if forwards > MOST_FORWARDS:
        raise click.UsageError(
            f"{stages} stages x {chunks} chunks x {micro_batches} micro-batches = {forwards} forwards: "
            f"show at most {MOST_FORWARDS}"
        )
    if stage is not None and not 0 <= stage < stages:
        raise click.UsageError(f"--stage {stage}: there are stages 0 to {stages - 1}")
    if stage is not None and as_json:
        raise click.UsageError(f"--stage {stage}: the document of --json has all stages, drop one of the two")
    try:
        document = pipeline_document(schedule, stages, chunks, micro_batches)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        click.echo(json.dumps(document, allow_nan=False))
    elif stage is not None:
        click.echo(describe_stage(document, stage))
    else:
        click.echo(describe_pipeline(document, messages))
