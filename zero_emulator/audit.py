"""What ranks prove to each other: that they used the same parameters, and that the gradient was right.

After an all-gather the ranks are equal even if one owner skipped its update. So the digest is of the views
that the next iteration really used, and compare holds the strategies against each other.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np

from collectives.communicator import IN_PLACE, Communicator
from collectives.ledger import Label
from zero_emulator.grid import Ranks
from zero_emulator.layout import Array
from zero_emulator.partition import Partition
from zero_emulator.strategies import Strategy
from zero_emulator.theory import DIGEST_BYTES


class DigestAudit:
    """Every rank's digest of the parameters after every ``every``-th iteration, and after the last.

    A rank has one digest for each class of its layers, that is for each set of ranks that has them, too.
    ``contradictions`` are views of one layer in one iteration that were not alike: the backward must use what
    the forward used, in every micro-batch.
    """

    def __init__(self, comm: Communicator, partition: Partition, iterations: int, every: int) -> None:
        self.comm, self.iterations, self.every = comm, iterations, every
        self.classes = [[held.layer for held in of] for of in partition.share(comm.rank).classes]
        self.num_digests = partition.num_classes
        self.digests: dict[int, list[str]] = {}
        self.contradictions: list[str] = []
        self._layers: dict[int, bytes] = {}

    def wants(self, iteration: int) -> bool:
        """Whether the outcome of this iteration is audited."""
        return iteration >= 1 and (iteration % self.every == 0 or iteration == self.iterations)

    def saw(self, iteration: int, layer: int, view: Array) -> None:
        """``iteration`` used this view, which is the outcome of the iteration before."""
        if not self.wants(iteration - 1):
            return
        digest = blake2b(view.data, digest_size=DIGEST_BYTES).digest()
        if self._layers.setdefault(layer, digest) != digest:
            self.contradictions.append(
                f"iteration {iteration}: rank {self.comm.rank} used two different views of layer {layer}"
            )

    def close(self, iteration: int) -> None:
        """All views of the outcome of ``iteration`` have been seen: exchange the digests, as audit bytes."""
        if not self.wants(iteration):
            return
        digests = np.zeros((self.comm.world_size, self.num_digests * DIGEST_BYTES), np.uint8)
        parts = np.split(digests[self.comm.rank], self.num_digests)
        for own, layers in zip(parts, self.classes, strict=False):  # a stage may lack a class, as experts
            views = b"".join(self._layers[layer] for layer in layers)
            own[...] = np.frombuffer(blake2b(views, digest_size=DIGEST_BYTES).digest(), np.uint8)
        with self.comm.labelled(Label("audit", iteration, "update")):
            sizes = (digests.shape[1],) * self.comm.world_size
            self.comm.all_gather(IN_PLACE, digests, sizes=sizes).wait()
        self.digests[iteration] = [digest.tobytes().hex() for digest in digests]
        self._layers.clear()

    def close_last(self, strategy: Strategy) -> list[Array]:
        """The last iteration has no next: gather every layer for the audit; the rank's full weights."""
        weights = []
        for layer, group in enumerate(strategy.groups):
            with self.comm.labelled(Label("audit", self.iterations, "update", group.number)):
                weights.append(strategy.gather_weight(layer))
            self.saw(self.iterations + 1, group.number, weights[-1])
        self.close(self.iterations)
        return weights


def gather_gradients(strategy: Strategy, iteration: int) -> list[Array]:
    """The full reduced gradient of every layer, as audit bytes, in float64: what serial training finds, too.

    Adam hides a gradient that is too large by a factor; this does not.
    """
    gradients = []
    for layer, group in enumerate(strategy.groups):
        with strategy.comm.labelled(Label("audit", iteration, "update", group.number)):
            gradients.append(strategy.gather_gradient(layer).astype(np.float64))
    return gradients


def digest_faults(partition: Partition, digests: Sequence[str]) -> Iterator[str]:
    """Ranks that compute with the same weights and have other digests of them than the first that does."""
    length = 2 * DIGEST_BYTES  # in hexadecimal digits
    seen: dict[tuple[int, Ranks], str] = {}
    for rank, digest in enumerate(digests):
        classes = partition.share(rank).classes
        for number, held in enumerate(classes):
            copies = partition.grid.copies(rank, expert=held[0].expert)
            own = digest[number * length : (number + 1) * length]
            first = seen.setdefault((number, copies), own)
            if first != own:
                kind = " of experts" if held[0].expert else " of dense layers"
                yield (
                    f"ranks {copies[0]} and {rank} hold different parameters"
                    f"{kind if len(classes) > 1 else ''}: digests {first} and {own}"
                )
