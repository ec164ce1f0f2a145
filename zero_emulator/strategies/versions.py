"""Which update made each rank's shard of each layer, as the ranks told each other: never read locally."""

import numpy as np
import numpy.typing as npt

from collectives.communicator import IN_PLACE, Communicator


class VersionError(RuntimeError):
    """A view is made of shards of another version than the iteration's."""


class Versions:
    """The version of every rank's shard of every layer, as the ranks last told; all start at 0."""

    def __init__(self, world_size: int, num_layers: int) -> None:
        self.told = np.zeros((world_size, num_layers), np.int64)

    def of(self, layer: int) -> npt.NDArray[np.int64]:
        """All ranks' versions of a layer, as they are told now: later exchanges do not change them."""
        return self.told[:, layer].copy()

    def exchange(self, comm: Communicator, own: list[int]) -> None:
        """Tell this rank's versions, layer by layer, and hear the others'. Every rank calls it."""
        self.told[comm.rank] = own
        comm.all_gather(IN_PLACE, self.told, sizes=(len(own),) * comm.world_size).wait()


def check_versions(layer: int, versions: npt.NDArray[np.int64], updates: int) -> None:
    """VersionError unless all ranks' shards of the layer are made by the last of so many updates."""
    if (versions != updates).any():
        raise VersionError(
            f"the view of layer {layer} is made of shards of versions {', '.join(map(str, versions))} "
            f"on ranks 0, 1, ...: after {updates} updates it needs version {updates} of all"
        )
