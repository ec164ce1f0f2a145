"""What every rank of a command does: train, report; rank 0 alone prints and writes files."""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import click

from collectives.command import EXIT_OK, EXIT_REFUTED
from collectives.transports.base import Transport
from zero_emulator.compare import compare, must_agree
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.files import write_whole
from zero_emulator.progress import Progress
from zero_emulator.ranks import is_terminal
from zero_emulator.record import Json, describe_environment, event_lines, event_messages, run_record
from zero_emulator.report import describe_comparison, describe_run
from zero_emulator.run import Outcome, run

COMPARE_SCHEMA = "zero-emulator/compare/1"


@dataclass(frozen=True)
class Job:
    """A configuration with its data, and what to print and write."""

    config: RunConfig
    dataset: Dataset
    transport: str
    record: Path | None = None
    events: Path | None = None
    quiet: bool = False
    json: bool = False

    def train(self, transport: Transport) -> int:
        """One run; the exit code."""
        outcome = self._run(self.config, transport)
        record = self._record_of(self.config, transport, outcome)
        if transport.rank == 0:
            self._write_events(event_lines(event_messages(outcome)))
            self._publish(record, describe_run(record))
        return EXIT_OK if record["verdict"] == "pass" else EXIT_REFUTED

    def compare(self, transport: Transport) -> int:
        """The same run through every strategy and serially; the exit code."""

        def run_one(config: RunConfig) -> Outcome:
            return self._run(config, transport, audit_gradients=True)

        found = compare(self.config, self.dataset, transport, run_one=run_one)
        runs = {
            name: self._record_of(outcome.config, transport, outcome)
            for name, outcome in found.outcomes.items()
        }
        apart = found.faults(self.config)
        verdicts = {
            name: "pass" if record["verdict"] == "pass" and not apart[name] else "fail"
            for name, record in runs.items()
        }
        passed = set(verdicts.values()) == {"pass"}
        document: Json = {
            "schema": COMPARE_SCHEMA,
            "runs": runs,
            "differences_from_serial": _finite(found.differences),
            "gradient_errors": _finite(found.gradient_errors),
            "faults": apart,
            "verdicts": verdicts,
            "agreement": [list(group) for group in must_agree(self.config.micro_batches)],
            "verdict": "pass" if passed else "fail",
        }
        if transport.rank == 0:
            self._write_events(
                line
                for name, outcome in found.outcomes.items()
                for line in event_lines(event_messages(outcome), strategy=name)
            )
            self._publish(document, describe_comparison(document))
        return EXIT_OK if passed else EXIT_REFUTED

    def _run(self, config: RunConfig, transport: Transport, *, audit_gradients: bool = False) -> Outcome:
        progress = Progress(config.strategy, config.iterations, terminal=is_terminal("stderr"))
        speaks = transport.rank == 0 and not (self.quiet or self.json)
        return run(
            config,
            self.dataset,
            transport,
            on_iteration=progress if speaks else lambda iteration: None,
            keep_events=self.events is not None,
            audit_gradients=audit_gradients,
        )

    def _record_of(self, config: RunConfig, transport: Transport, outcome: Outcome) -> Json:
        partition = config.partition(self.dataset, transport.world_size)
        environment = describe_environment(self.transport) | {"data": self.dataset.name}
        return run_record(config, partition, outcome, environment)

    def _write_events(self, lines: Iterable[str]) -> None:
        if self.events is not None:
            write_whole(self.events, lines)

    def _publish(self, document: Json, text: str) -> None:
        if self.record is not None:
            write_whole(self.record, [json.dumps(document, indent=1, allow_nan=False), "\n"])
        if self.json:
            click.echo(json.dumps(document, allow_nan=False))
        else:
            shown = text.splitlines()[-1] if self.quiet else text
            # A rank writes into a pipe, where click would strip colours.
            click.echo(_painted(shown), color=True)


def _painted(text: str) -> str:
    """Verdicts in colour, for a terminal and whoever has not set NO_COLOR."""
    if not is_terminal("stdout") or os.environ.get("NO_COLOR"):
        return text
    colours = {"pass": "green", "fail": "red"}
    return re.sub(r"\b(pass|fail)$", lambda word: click.style(word[0], colours[word[0]]), text, flags=re.M)


def _finite(values: dict[str, float]) -> dict[str, float | None]:
    """Numbers for JSON, which has no NaN."""
    return {name: value if isfinite(value) else None for name, value in values.items()}
