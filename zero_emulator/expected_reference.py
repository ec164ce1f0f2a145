"""What a rank of a run must hold and move of the frozen model that the run is held near."""

from zero_emulator.batches import rank_rows
from zero_emulator.config import RunConfig
from zero_emulator.partition import Partition
from zero_emulator.precision import ITEMSIZE
from zero_emulator.theory import Frozen


def frozen_on(config: RunConfig, partition: Partition, rank: int) -> Frozen | None:
    """The frozen model as this rank has it: only if it computes the loss, in a pipeline on the last stage."""
    if config.reference is None or not partition.share(rank).has_loss:
        return None
    itemsize = ITEMSIZE[config.policy.compute]
    return Frozen(config.reference.widths, itemsize, streams=config.reference.on == "host")


def expected_residency(config: RunConfig, partition: Partition, rank: int) -> int:
    """The most bytes of its weights that are on the device at once."""
    frozen = frozen_on(config, partition, rank)
    return 0 if frozen is None else frozen.most(rows_of(config, partition, rank))


def expected_crossing(config: RunConfig, partition: Partition, rank: int) -> int:
    """Bytes of its weights that come over the link to the device in an iteration."""
    frozen = frozen_on(config, partition, rank)
    return 0 if frozen is None else frozen.crossing(rows_of(config, partition, rank))


def rows_of(config: RunConfig, partition: Partition, rank: int) -> list[int]:
    """The rows of each micro-batch that this rank works on."""
    share = partition.share(rank)
    parts = rank_rows(config.batch_size, config.micro_batches, share.stage_size, share.stage_position)
    return [part.stop - part.start for part in parts]
