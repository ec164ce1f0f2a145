"""What is proved after an iteration: the bytes are the closed form's, and all ranks hold the same parameters.

After an all-gather the ranks are equal even if one owner skipped its update. So the digest is of the views
that the next forward really used, and compare holds the strategies against each other.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from collectives.communicator import IN_PLACE, Communicator
from collectives.ledger import Entry, Kind, Label
from zero_emulator.layout import Array
from zero_emulator.strategies import Strategy
from zero_emulator.theory import Flow

DIGEST_BYTES = 16


@dataclass
class RankTraffic:
    """What one rank counted in one iteration: training by (phase, collective), the rest in all.

    ``sent``, ``received`` and ``other`` are bytes, ``calls`` collectives.
    """

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    received: Counter[tuple[str, str]] = field(default_factory=Counter)
    other: Counter[Kind] = field(default_factory=Counter)

    def equals(self, expected: dict[tuple[str, str], Flow]) -> bool:
        """Whether the counted training traffic is the expected one, flow by flow, to the byte."""
        sent = Counter({key: flow.sent for key, flow in expected.items()})
        received = Counter({key: flow.received for key, flow in expected.items()})
        return +self.sent == +sent and +self.received == +received  # + drops the zeros


def count_traffic(entries: Iterable[Entry]) -> dict[int | None, RankTraffic]:
    """One rank's traffic by iteration, from its ledger; None stands for what belongs to none."""
    by_iteration: defaultdict[int | None, RankTraffic] = defaultdict(RankTraffic)
    for entry in entries:
        call = entry.origin.call
        traffic = by_iteration[call.label.iteration]
        sent = sum(num_bytes for _, num_bytes in entry.sends)
        if call.label.kind != "training":
            traffic.other[call.label.kind] += sent
            continue
        key = call.label.phase or "none", call.collective
        traffic.calls[key] += entry.origin.step == 0 and entry.origin.chunk == 0
        traffic.sent[key] += sent
        traffic.received[key] += sum(num_bytes for _, num_bytes in entry.recvs)
    return by_iteration


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
