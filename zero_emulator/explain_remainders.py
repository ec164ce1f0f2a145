"""Where the counted bytes of a record are not the explained ones: there should be no such place."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from zero_emulator.explain_overhead import Overhead
from zero_emulator.explain_training import switches
from zero_emulator.recorded import RankTraffic, Recorded
from zero_emulator.theory import Flow


class Remainder(NamedTuple):
    """Counted bytes that nothing explains, or explained ones that nobody counted."""

    iteration: int | None
    """None from start to end."""
    rank: int
    what: str
    counted: int
    explained: int


def remainders(record: Recorded, overheads: Sequence[Sequence[Overhead]]) -> Iterator[Remainder]:
    """Every number of the record's traffic beside its closed form, where they differ.

    ``overheads`` are by iteration and rank.
    """
    real = [switches(record, skipped=skipped)[-1].situation for skipped in (False, True)]
    for rank, totals in enumerate(record.totals):
        training = [situation.flows(rank) for situation in real]
        whole_run: Counter[str] = Counter()
        for one, ranks in zip(record.iterations, overheads, strict=True):
            flows, besides = training[one.skipped], _by_kind(ranks[rank])
            explained = {**_by_part(flows), **besides}
            yield from _differing(one.iteration, rank, _counted(one.traffic[rank]), explained)
            whole_run.update(besides)
            whole_run["sent for training"] += sum(flow.sent for flow in flows.values())
        counted = {f"sent for {kind}": num_bytes for kind, num_bytes in vars(totals).items()}
        yield from _differing(None, rank, counted, whole_run)


def _counted(traffic: RankTraffic) -> dict[str, int]:
    return {
        **{f"sent by {collective}": sent for collective, sent in traffic.sent.items()},
        **{f"received by {collective}": received for collective, received in traffic.received.items()},
        **{f"sent in {phase}": sent for phase, sent in traffic.sent_by_phase.items()},
        "sent for control": traffic.control_sent,
        "sent for audit": traffic.audit_sent,
    }


def _by_part(training: Mapping[tuple[str, str], Flow]) -> Counter[str]:
    explained: Counter[str] = Counter()
    for (phase, collective), flow in training.items():
        explained[f"sent by {collective}"] += flow.sent
        explained[f"received by {collective}"] += flow.received
        explained[f"sent in {phase}"] += flow.sent
    return explained


def _by_kind(overhead: Overhead) -> Counter[str]:
    explained: Counter[str] = Counter()
    for (kind, _), flow in overhead.items():
        explained[f"sent for {kind}"] += flow.sent
    return explained


def _differing(
    iteration: int | None, rank: int, counted: Mapping[str, int], explained: Mapping[str, int]
) -> Iterator[Remainder]:
    for what in dict.fromkeys([*counted, *explained]):
        one, other = counted.get(what, 0), explained.get(what, 0)
        if one != other:
            yield Remainder(iteration, rank, what, one, other)
