"""What is proved after an iteration: all ranks hold the same parameters.

After an all-gather the ranks are equal even if one owner skipped its update. So the digest is of the views
that the next forward really used, and compare holds the strategies against each other.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from collectives.communicator import IN_PLACE, Communicator
from collectives.ledger import Label
from zero_emulator.layout import Array
from zero_emulator.strategies import Strategy

DIGEST_BYTES = 16


class DigestAudit:
    """Every rank's digest of the parameters after every ``every``-th iteration, and after the last."""

    def __init__(self, comm: Communicator, iterations: int, every: int) -> None:
        self.comm, self.iterations, self.every = comm, iterations, every
        self.digests: dict[int, list[str]] = {}
        self._hash = blake2b(digest_size=DIGEST_BYTES)

    def wants(self, iteration: int) -> bool:
        return iteration >= 1 and (iteration % self.every == 0 or iteration == self.iterations)

    def saw(self, iteration: int, layer: int, view: Array) -> None:
        """A forward of ``iteration`` used this view, which is the outcome of the iteration before."""
        if self.wants(iteration - 1):
            self._hash.update(view.data)

    def close(self, iteration: int) -> None:
        """All views of the outcome of ``iteration`` have been seen: exchange the digests, as audit bytes."""
        if not self.wants(iteration):
            return
        digests = np.empty((self.comm.world_size, DIGEST_BYTES), np.uint8)
        digests[self.comm.rank] = np.frombuffer(self._hash.digest(), np.uint8)
        sizes = (DIGEST_BYTES,) * self.comm.world_size
        with self.comm.labelled(Label("audit", iteration, "update")):
            self.comm.all_gather(IN_PLACE, digests, sizes=sizes).wait()
        self.digests[iteration] = [digest.tobytes().hex() for digest in digests]
        self._hash = blake2b(digest_size=DIGEST_BYTES)

    def close_last(self, strategy: Strategy) -> list[Array]:
        """The last iteration has no next forward: gather every layer for the audit; the full weights."""
        weights = []
        for layer in range(len(strategy.layers)):
            with self.comm.labelled(Label("audit", self.iterations, "update", layer)):
                weights.append(strategy.gather_weight(layer))
            self.saw(self.iterations + 1, layer, weights[-1])
        self.close(self.iterations)
        return weights


def all_equal(digests: Sequence[str]) -> bool:
    return len(set(digests)) == 1
