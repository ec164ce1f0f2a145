"""`zero-emulator explain`: its options, and the record that they are about."""

import json
from pathlib import Path

import click

from collectives.command import EXIT_OK, EXIT_REFUTED
from zero_emulator.chosen import no_rings
from zero_emulator.explain import Explanation, explain
from zero_emulator.explain_document import explain_document
from zero_emulator.explain_report import describe_explanation
from zero_emulator.record_files import read_records
from zero_emulator.recorded import Recorded


@click.command("explain")
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--iteration", type=int, help="Which one.  [default: the last]")
@click.option("--rank", type=int, help="Which one alone.  [default: least and most over all]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def explain_record(record: Path, iteration: int | None, rank: int | None, as_json: bool) -> int:
    """Say step by step why each rank sends what it does, and not 2Ψ or 3Ψ.

    RECORD is a file that train or compare wrote with --record. Exit code 1 if counted bytes remain that
    nothing explains, on any rank in any iteration.
    """
    try:
        explanations = [_explain(run, iteration, rank) for run in read_records(record).values()]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    document = explain_document(explanations, rank)
    click.echo(json.dumps(document, allow_nan=False) if as_json else describe_explanation(document))
    return EXIT_OK if document["verdict"] == "pass" else EXIT_REFUTED


def _explain(run: Recorded, iteration: int | None, rank: int | None) -> Explanation:
    last, num_ranks = run.config.iterations, run.world_size
    if iteration is not None and not 1 <= iteration <= last:
        raise ValueError(f"--iteration {iteration}: the record has iterations 1 to {last}")
    if rank is not None and not 0 <= rank < num_ranks:
        raise ValueError(f"--rank {rank}: the record has ranks 0 to {num_ranks - 1}")
    if others := no_rings(run.config.algorithm):
        raise ValueError(
            f"{run.config.strategy} ran on --algorithm {others}, and explain knows the bytes of rings alone: "
            "the run has held its own against the proof"
        )
    if run.beside_data:
        raise ValueError(
            f"{run.config.strategy} ran with {run.beside_data}, and explain knows the bytes of data "
            "parallelism alone: the run has held its own against the closed forms"
        )
    return explain(run, iteration or last)
