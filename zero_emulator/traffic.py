"""What one rank counted in a run, summed up: by iteration, by kind, by peer."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collectives.ledger import Entry, Kind
from zero_emulator.theory import Flow

PhaseAndCollective = tuple[str, str]


@dataclass
class IterationTraffic:
    """One rank in one iteration: training by (phase, collective), the rest in all.

    ``calls`` are collectives, the others bytes.
    """

    sent: Counter[PhaseAndCollective] = field(default_factory=Counter)
    received: Counter[PhaseAndCollective] = field(default_factory=Counter)
    calls: Counter[PhaseAndCollective] = field(default_factory=Counter)
    other_sent: Counter[Kind] = field(default_factory=Counter)
    other_received: Counter[Kind] = field(default_factory=Counter)

    def overhead(self, kind: Kind) -> Flow:
        """Control or audit bytes."""
        return Flow(self.other_sent[kind], self.other_received[kind])

    def equals(self, expected: Mapping[PhaseAndCollective, Flow]) -> bool:
        """Whether the counted training traffic is the expected one, flow by flow, to the byte."""
        sent = Counter({key: flow.sent for key, flow in expected.items()})
        received = Counter({key: flow.received for key, flow in expected.items()})
        return +self.sent == +sent and +self.received == +received  # + drops the zeros


@dataclass
class RunTraffic:
    """One rank from start to end, in bytes: whatever it sent and received stands in each of the sums."""

    by_iteration: defaultdict[int | None, IterationTraffic] = field(
        default_factory=lambda: defaultdict(IterationTraffic)
    )
    sent: Counter[Kind] = field(default_factory=Counter)
    sent_to: Counter[tuple[int, Kind]] = field(default_factory=Counter)
    received_from: Counter[tuple[int, Kind]] = field(default_factory=Counter)


def sum_up(entries: Iterable[Entry]) -> RunTraffic:
    """One rank's ledger in sums. What belongs to no iteration stands under None."""
    traffic = RunTraffic()
    for entry in entries:
        call = entry.origin.call
        kind = call.label.kind
        sent = sum(num_bytes for _, num_bytes in entry.sends)
        traffic.sent[kind] += sent
        for peer, num_bytes in entry.sends:
            traffic.sent_to[peer, kind] += num_bytes
        for peer, num_bytes in entry.recvs:
            traffic.received_from[peer, kind] += num_bytes
        iteration = traffic.by_iteration[call.label.iteration]
        if kind != "training":
            iteration.other_sent[kind] += sent
            iteration.other_received[kind] += sum(num_bytes for _, num_bytes in entry.recvs)
            continue
        key = call.label.phase or "none", call.collective
        iteration.calls[key] += entry.origin.step == 0 and entry.origin.chunk == 0
        iteration.sent[key] += sent
        iteration.received[key] += sum(num_bytes for _, num_bytes in entry.recvs)
    return traffic
