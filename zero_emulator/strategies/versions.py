"""Which update made each rank's shard of each layer, as the ranks told each other: never read locally."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from collectives.communicator import IN_PLACE, Communicator


class VersionError(RuntimeError):
    """A view is made of shards of another version than the iteration's."""


class Versions:
    """The version of every sharer's shard of every layer, as they last told each other; all start at 0.

    ``comms``: for each layer the communicator of those who shard it. Those of one communicator tell each
    other the versions of all its layers at once.
    """

    def __init__(self, comms: Sequence[Communicator]) -> None:
        self.layers: dict[Communicator, list[int]] = {}
        for layer, comm in enumerate(comms):
            self.layers.setdefault(comm, []).append(layer)
        self.told = [
            np.zeros((comm.world_size, len(layers)), np.int64) for comm, layers in self.layers.items()
        ]
        self._columns = {
            layer: (table, column)
            for table, layers in enumerate(self.layers.values())
            for column, layer in enumerate(layers)
        }

    def of(self, layer: int) -> npt.NDArray[np.int64]:
        """All sharers' versions of a layer, as they are told now: later exchanges do not change them."""
        table, column = self._columns[layer]
        return self.told[table][:, column].copy()

    def exchange(self, own: Sequence[int]) -> None:
        """Tell this rank's versions, layer by layer, and hear the others'. Every rank calls it."""
        for told, (comm, layers) in zip(self.told, self.layers.items(), strict=True):
            told[comm.rank] = [own[layer] for layer in layers]
            comm.all_gather(IN_PLACE, told, sizes=(len(layers),) * comm.world_size).wait()


def check_versions(layer: int, versions: npt.NDArray[np.int64], updates: int) -> None:
    """VersionError unless all ranks' shards of the layer are made by the last of so many updates."""
    if (versions != updates).any():
        raise VersionError(
            f"the view of layer {layer} is made of shards of versions {', '.join(map(str, versions))} "
            f"on ranks 0, 1, ...: after {updates} updates it needs version {updates} of all"
        )
