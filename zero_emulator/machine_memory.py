"""Whether a run can fit into this machine's memory, asked before any rank starts."""

from collectives.environment import machine_bytes
from collectives.table import counted
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.expected_memory import expected_persistent
from zero_emulator.precision import ITEMSIZE
from zero_emulator.theory import Frozen

REPORTED_BYTES = 1000
"""At least so much stays of an iteration in a rank's report, of which every rank has all in the end."""


def check_memory(config: RunConfig, dataset: Dataset, world_size: int, *, ranks_here: int) -> None:
    """ValueError if ``ranks_here`` of the ranks need more memory than this machine has.

    It counts what must be alive at one time for certain: a run that passes may need a good deal more.
    """
    option, needed = max(least_bytes(config, dataset, world_size).items(), key=lambda need: need[1])
    needed, has = ranks_here * needed, machine_bytes()
    if needed > has:
        raise ValueError(
            f"{option} takes {-(-needed // 10**9)} GB of memory or more for {counted(ranks_here, 'rank')}, "
            f"this machine has {has // 10**9} GB: take less, or fewer ranks"
        )


def least_bytes(config: RunConfig, dataset: Dataset, world_size: int) -> dict[str, int]:
    """What a rank holds at least, on the average, each time for the option that asks most."""
    partition = config.partition(dataset, world_size)
    persistent = sum(sum(expected_persistent(config, partition, rank).values()) for rank in range(world_size))
    persistent //= world_size
    number = ITEMSIZE[config.policy.compute]
    rows = config.batch_size // config.micro_batches // world_size
    return {
        # Every rank draws the whole model, and takes its part of it.
        _of_model(config): persistent + number * partition.num_params,
        f"--batch-size {config.batch_size}": (
            persistent + number * rows * sum(layer.outputs for layer in partition.layers)
        ),
        **_reference_bytes(config, persistent),
        f"--data {dataset.name}": persistent + number * dataset.train_x.size,
        f"--iterations {config.iterations}": REPORTED_BYTES * (world_size - 1) * config.iterations,
    }


def _of_model(config: RunConfig) -> str:
    """What makes the model as large as it is."""
    widths = f"--hidden {','.join(map(str, config.hidden))}"
    if not config.experts:
        return widths
    inside = "" if config.expert_hidden is None else f" and --expert-hidden {config.expert_hidden}"
    return f"{widths} with --experts {config.experts}{inside}"


def _reference_bytes(config: RunConfig, persistent: int) -> dict[str, int]:
    """Every rank reads the reference."""
    if config.reference is None:
        return {}
    sizes = Frozen(config.reference.widths, ITEMSIZE[config.policy.compute], streams=True).layers
    return {f"--reference {config.reference.file}": persistent + sum(sizes)}
