"""The options of a run, which `train` and `compare` have alike."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from collectives.ranks import DEFAULT_RANKS
from collectives.transports import TRANSPORTS
from zero_emulator.config import RunConfig
from zero_emulator.cuts import CUTS
from zero_emulator.frozen_reference import PLACES, FrozenReference
from zero_emulator.host import OFFLOADS
from zero_emulator.losses import LOSSES
from zero_emulator.optimizers import OPTIMIZERS
from zero_emulator.options import parsed
from zero_emulator.padding import PADDINGS
from zero_emulator.pipeline import SCHEDULES
from zero_emulator.precision import ITEMSIZE, PRECISIONS
from zero_emulator.run_settings import UNIFORM
from zero_emulator.units import parse_bytes

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT = RunConfig()


def _widths(context: click.Context, option: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(width) for width in value.split(",") if width.strip())
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of widths: write 64,32") from None


class _File(click.Path):
    """A Path that may be a file: not ``new/`` or ``new/.``, of which Path would keep no more than ``new``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value and os.path.basename(value) in ("", os.curdir):
            raise click.UsageError(f"{value}: a directory: name a file in it", ctx)
        return super().convert(value, param, ctx)


PATH = _File(path_type=Path)

# What says None in RunConfig is left out here unless given: then the optimizer's own default holds.
OPTIONS = (
    click.option("--ranks", type=int, help=f"World size.  [default: {DEFAULT_RANKS}, or mpiexec's]"),
    click.option("--hidden", callback=_widths, default=",".join(map(str, DEFAULT.hidden)),
                 help="Widths of the hidden layers."),
    click.option("--batch-size", type=int, default=DEFAULT.batch_size, help="Samples of the global batch."),
    click.option("--micro-batches", type=int, default=DEFAULT.micro_batches, help="Parts of a batch."),
    click.option("--optimizer", type=click.Choice(list(OPTIMIZERS)), default=DEFAULT.optimizer),
    click.option("--lr", type=float, help="Learning rate.  [default: 0.003, sgd 0.1, muon 0.01]"),
    click.option("--momentum", type=float, help="Of sgd and muon."),
    click.option("--weight-decay", type=float, help="Of adamw and muon."),
    click.option("--loss", type=click.Choice(list(LOSSES)), default=DEFAULT.loss),
    click.option("--dtype", type=click.Choice(list(UNIFORM)), help="One dtype for all.  [default: float32]"),
    click.option("--precision", type=click.Choice(list(PRECISIONS)), help="Which dtype lives where."),
    click.option("--grad-dtype", type=click.Choice(list(ITEMSIZE)), help="Of persistent gradients."),
    click.option("--reduce-dtype", type=click.Choice(list(ITEMSIZE)), help="Of gradients on the wire."),
    click.option("--param-wire-dtype", type=click.Choice(list(ITEMSIZE)), help="Of weights on the wire."),
    click.option("--seed", type=int, default=DEFAULT.seed, help="Of the parameters and the batches."),
    click.option("--data", type=PATH, help=".npz with x and y, or .csv, label last.  [default: digits]"),
    click.option("--prefetch", type=int, default=DEFAULT.prefetch, help="Gathers in flight ahead (zero3)."),
    click.option("--keep-views", type=click.Choice(["none", "last", "all"]), default=DEFAULT.keep_views,
                 help="Layers whose views stay from forward to backward (zero3)."),
    click.option("--clip", type=float, help="Clip gradients to this global norm."),
    click.option("--padding", type=click.Choice(list(PADDINGS)), default=DEFAULT.padding,
                 help="Zeros behind a layer (even, 2n) or its tensors (rows), so that blocks are equal."),
    click.option("--cut", type=click.Choice(list(CUTS)), default=DEFAULT.cut,
                 help="Blocks of every layer, or whole layers to ranks."),
    click.option("--algorithm", multiple=True,
                 help="Of the collectives: NAME or FILE.py:FUNCTION, or either after COLLECTIVE=; the last "
                 "word counts.  [default: ring]"),
    click.option("--shard-size", type=int,
                 help="Shard over so many ranks, copy across them.  [default: all that have copies]"),
    click.option("--pipeline", type=int, default=DEFAULT.pipeline, help="Stages that split the layers."),
    click.option("--chunks", type=int, default=DEFAULT.chunks, help="Parts of the model on each stage."),
    click.option("--schedule", type=click.Choice(list(SCHEDULES)), default=DEFAULT.schedule,
                 help="In which order stages compute."),
    click.option("--experts", type=int, default=DEFAULT.experts, help="Behind each hidden layer."),
    click.option("--expert", type=int, default=DEFAULT.expert, help="Ranks that split the experts."),
    click.option("--top-k", type=int, default=DEFAULT.top_k, help="Experts of a sample, 1 or 2."),
    click.option("--expert-hidden", type=int, help="Units in an expert.  [default: the layer's]"),
    click.option("--capacity", type=float, help="Of an expert, times the even share.  [default: all]"),
    click.option("--balance", type=float, default=DEFAULT.balance, help="Weight of the balancing loss."),
    click.option("--device-memory", callback=parsed(parse_bytes),
                 help="Of one rank, 64MiB or 80GB: what does not fit ends the run."),
    click.option("--offload", multiple=True, type=click.Choice(list(OFFLOADS)),
                 help="Keep it on the host, and bring it over a link when needed; may be given twice."),
    click.option("--host-memory", callback=parsed(parse_bytes), help="The same of one rank's host."),
    click.option("--link-bandwidth", callback=parsed(parse_bytes),
                 help="Bytes a second from the host, 16GB: to model what a rank would wait for."),
    click.option("--reference", type=PATH, help="Frozen model, .npz of train --save, for --kl."),
    click.option("--kl", type=float, help="Add so many times the mean KL divergence from the reference."),
    click.option("--reference-on", type=click.Choice(PLACES), default=FrozenReference.on,
                 help="Where its weights are: on the host they pass through two slots of the device."),
    click.option("--audit-every", type=int, default=DEFAULT.audit_every, help="Iterations between digests."),
    click.option("--time-limit", type=float, default=DEFAULT.time_limit, help="Seconds without news."),
    click.option("--record", type=PATH, help="Write the run record, JSON."),
    click.option("--events", type=PATH, help="Write a line of JSON for each message."),
    click.option("--transport", type=click.Choice(TRANSPORTS), default="mpi"),
    click.option("--quiet", is_flag=True, help="Print the verdict alone."),
    click.option("--json", is_flag=True, help="Print the record and nothing else."),
)  # fmt: skip


def run_options(iterations: int) -> Callable[[F], F]:
    """The options of a run, with this many iterations by default."""

    def add(command: F) -> F:
        updates = click.option("--iterations", type=int, default=iterations, help="Optimizer updates.")
        for option in reversed((updates, *OPTIONS)):
            command = option(command)
        return command

    return add
