"""The whole model from the parts that ranks have of it, on every rank."""

import numpy as np

from collectives.communicator import Communicator
from zero_emulator.layout import Array
from zero_emulator.partition import Partition


def whole_model(partition: Partition, comm: Communicator, own: list[Array]) -> list[Array]:
    """One flat array a layer of the model, of which ``own`` are this rank's; every rank calls it.

    What this rank has is its own; the rest comes from the first rank that has it, by the transport's own
    means and uncounted: it is for reports.
    """
    if partition.is_plain:
        return own
    share, told = partition.share(comm.rank), None
    if any(partition.grid.copies(comm.rank, expert=held.expert)[0] == comm.rank for held in share.held):
        told = own
    whole = [np.empty(layer.layout.size, own[0].dtype) for layer in partition.layers]
    parts = comm.exchange(told)
    for rank in (*(one for one, part in enumerate(parts) if part is not None), comm.rank):
        arrays = own if rank == comm.rank else parts[rank]
        for held, array in zip(partition.share(rank).held, arrays, strict=True):
            whole[held.layer][held.place] = array
    return whole
