"""What one rank counted in a run, summed up: by iteration, by kind, by peer."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collectives.ledger import Entry, Kind
from zero_emulator.theory import Flow

PhaseAndCollective = tuple[str, str]


@dataclass
class IterationTraffic:
    """One rank in one iteration: training by (phase, collective) and along each axis, the rest in all.

    ``calls`` are collectives, the others bytes.
    """

    sent: Counter[PhaseAndCollective] = field(default_factory=Counter)
    received: Counter[PhaseAndCollective] = field(default_factory=Counter)
    calls: Counter[PhaseAndCollective] = field(default_factory=Counter)
    sent_along: Counter[str] = field(default_factory=Counter)
    received_along: Counter[str] = field(default_factory=Counter)
    other_sent: Counter[Kind] = field(default_factory=Counter)
    other_received: Counter[Kind] = field(default_factory=Counter)

    def overhead(self, kind: Kind) -> Flow:
        """Control or audit bytes."""
        return Flow(self.other_sent[kind], self.other_received[kind])

    def along(self) -> dict[str, Flow]:
        """Training bytes by the axis of the grid that they went along."""
        axes = self.sent_along.keys() | self.received_along.keys()
        return {axis: Flow(self.sent_along[axis], self.received_along[axis]) for axis in sorted(axes)}

    def equals(self, expected: Mapping[PhaseAndCollective, Flow]) -> bool:
        """Whether the counted training traffic is the expected one, flow by flow, to the byte."""
        sent = Counter({key: flow.sent for key, flow in expected.items()})
        received = Counter({key: flow.received for key, flow in expected.items()})
        return +self.sent == +sent and +self.received == +received  # + drops the zeros


@dataclass
class RunTraffic:
    """One rank from start to end, in bytes: whatever it sent and received stands in each of the sums.

    Summed up iteration by iteration, so that a long run does not keep its messages.
    """

    by_iteration: defaultdict[int | None, IterationTraffic] = field(
        default_factory=lambda: defaultdict(IterationTraffic)
    )
    sent: Counter[Kind] = field(default_factory=Counter)
    sent_to: Counter[tuple[int, Kind]] = field(default_factory=Counter)
    received_from: Counter[tuple[int, Kind]] = field(default_factory=Counter)

    def add(self, entries: Iterable[Entry]) -> None:
        """Take in what a ledger has let go. What belongs to no iteration stands under None."""
        for entry in entries:
            call = entry.origin.call
            kind = call.label.kind
            sent = sum(num_bytes for _, num_bytes in entry.sends)
            received = sum(num_bytes for _, num_bytes in entry.recvs)
            self.sent[kind] += sent
            for peer, num_bytes in entry.sends:
                self.sent_to[peer, kind] += num_bytes
            for peer, num_bytes in entry.recvs:
                self.received_from[peer, kind] += num_bytes
            iteration = self.by_iteration[call.label.iteration]
            if kind != "training":
                iteration.other_sent[kind] += sent
                iteration.other_received[kind] += received
                continue
            key = call.label.phase or "none", call.collective
            iteration.calls[key] += entry.origin.step == 0 and entry.origin.chunk == 0
            iteration.sent[key] += sent
            iteration.received[key] += received
            axis = call.label.axis or "none"
            iteration.sent_along[axis] += sent
            iteration.received_along[axis] += received
