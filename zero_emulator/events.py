"""The event log: a line of JSON for each message of a run. zero_emulator/run_record.md has its fields."""

import json
from collections.abc import Iterator

from collectives.ledger import Message, pair_messages
from zero_emulator.outcome import Outcome


def event_messages(outcome: Outcome) -> list[Message]:
    """Every message of a run that kept its events, paired: LedgerError if its ends were not counted alike."""
    return pair_messages([report.entries for report in outcome.reports])


def event_lines(outcome: Outcome, **constant: str) -> Iterator[str]:
    """The event log: a line of JSON for each message. Times are in seconds since the first one."""
    first: float | None = None
    for message in event_messages(outcome):
        first = message.start if first is None else first
        call = message.origin.call
        yield (
            json.dumps(
                constant
                | {
                    "kind": call.label.kind,
                    "iteration": call.label.iteration,
                    "phase": call.label.phase,
                    "layer": call.label.layer,
                    "axis": call.label.axis,
                    "collective": call.collective,
                    "algorithm": call.algorithm,
                    "call": call.number,
                    "step": message.origin.step,
                    "chunk": message.origin.chunk,
                    "sender": message.sender,
                    "receiver": message.receiver,
                    "bytes": message.num_bytes,
                    "start": round(message.start - first, 7),
                    "end": round(message.end - first, 7),
                }
            )
            + "\n"
        )
