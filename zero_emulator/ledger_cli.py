"""`zero-emulator ledger`: its options, and the model they describe."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from collectives.ranks import DEFAULT_RANKS
from zero_emulator.held_bytes import Training
from zero_emulator.ledger_document import Described, ledger_document
from zero_emulator.ledger_report import describe_ledger
from zero_emulator.model_configs import read_config
from zero_emulator.options import parsed
from zero_emulator.parallel_degrees import ParallelDegrees
from zero_emulator.precision import ITEMSIZE, PRECISIONS, find_precision
from zero_emulator.safetensors_model import read_model
from zero_emulator.shapes import Model
from zero_emulator.stages import stage_of_count, stages_of
from zero_emulator.theory import UPDATES, KeepViews
from zero_emulator.units import parse_bytes, parse_params

F = TypeVar("F", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
DEGREE = click.IntRange(min=1)


OPTIONS = (
    click.option("--params", callback=parsed(parse_params), help="Number of parameters: 8e9, 8B."),
    click.option("--expert-params", callback=parsed(parse_params), help="Those of --params in experts."),
    click.option("--config", type=PATH, help="A model's Hugging Face config.json."),
    click.option("--safetensors", type=PATH, help="A model's weights or their index: headers are read."),
    click.option("--ranks", type=DEGREE, default=DEFAULT_RANKS, help="World size."),
    click.option("--tensor-parallel", type=DEGREE, default=1, help="Ranks that split a layer."),
    click.option("--pipeline", type=DEGREE, default=1, help="Stages that split the layers."),
    click.option("--expert", type=DEGREE, default=1, help="Ranks that split the experts."),
    click.option("--precision", type=click.Choice(list(PRECISIONS)), default="bf16"),
    click.option("--compute", type=click.Choice(list(ITEMSIZE)), help="Dtype of it.  [default: precision's]"),
    click.option("--optimizer", type=click.Choice(list(UPDATES)), default="adam"),
    click.option("--micro-batches", type=DEGREE, default=1, help="Gradients that add up to an iteration's."),
    click.option("--prefetch", type=click.IntRange(min=0), default=0, help="Gathers ahead (zero3)."),
    click.option("--keep-views", type=click.Choice(get_args(KeepViews)), default="none",
                 help="Views that stay from forward to backward (zero3)."),
    click.option("--device-memory", callback=parsed(parse_bytes), help="Of one rank: 80GB, 80GiB."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else."),
)  # fmt: skip


def _ledger_options(command: F) -> F:
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.command()
@_ledger_options
def ledger(as_json: bool, **options: Any) -> None:
    """Work out what each strategy keeps and sends for a model that is not run.

    The model is a number of parameters, a config or the header of its weights. No rank starts.
    """
    try:
        document = ledger_document(_describe(**options))
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    click.echo(json.dumps(document, allow_nan=False) if as_json else describe_ledger(document))


def _describe(
    *,
    params: int | None,
    expert_params: int | None,
    config: Path | None,
    safetensors: Path | None,
    ranks: int,
    tensor_parallel: int,
    pipeline: int,
    expert: int,
    precision: str,
    compute: str | None,
    optimizer: str,
    micro_batches: int,
    prefetch: int,
    keep_views: KeepViews,
    device_memory: int | None,
) -> Described:
    """What was asked for; ValueError or OSError for what cannot be worked out."""
    named = {"--params": params, "--config": config, "--safetensors": safetensors}
    given = [option for option, value in named.items() if value is not None]
    if len(given) != 1:
        raise ValueError(f"{' and '.join(given) or 'no model'} given: take one of {', '.join(named)}")
    if expert_params is not None and params is None:
        raise ValueError(f"--expert-params {expert_params} is for --params: {given[0]} tells experts apart")
    policy = find_precision(precision)
    training = Training(
        replace(policy, compute=compute or policy.compute),
        optimizer,
        micro_batches,
        prefetch,
        keep_views,
    )
    degrees = ParallelDegrees(ranks, tensor_parallel, pipeline, expert)
    if params is not None:
        experts = expert_params or 0
        stage = stage_of_count(params, experts, degrees)
        return Described(None, params, experts, (stage,), degrees, training, device_memory)
    model = _read(config, safetensors)
    stages = stages_of(model, degrees)
    return Described(
        model.name, model.num_params, model.num_expert_params, stages, degrees, training, device_memory
    )


def _read(config: Path | None, safetensors: Path | None) -> Model:
    if config is not None:
        return read_config(config)
    assert safetensors is not None, "one of the two is given"
    return read_model(safetensors)
