"""What every rank of a command does: train, report; rank 0 alone prints and writes files."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from math import isfinite

from collectives.command import EXIT_OK, EXIT_REFUTED, EXIT_USAGE
from collectives.environment import describe_environment
from collectives.ranks import is_terminal
from collectives.transports.base import Transport
from zero_emulator.compare import compare, must_agree
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.events import event_lines
from zero_emulator.outputs import Outputs
from zero_emulator.progress import Progress
from zero_emulator.record import Json, run_record
from zero_emulator.report import describe_comparison, describe_run
from zero_emulator.run import Outcome, run
from zero_emulator.weight_files import Model, saved_weights

COMPARE_SCHEMA = "zero-emulator/compare/4"


@dataclass(frozen=True)
class Job:
    """A configuration with its data, and what it leaves behind."""

    config: RunConfig
    dataset: Dataset
    transport: str
    outputs: Outputs
    frozen: Model | None = None
    """The model that ``config.reference`` tells of."""

    def train(self, transport: Transport) -> int:
        """One run; the exit code."""
        outcome = self._run(self.config, transport)
        record = self._record_of(self.config, transport, outcome)
        layers = self.config.partition(self.dataset, transport.world_size).layers
        weights = saved_weights(layers, outcome.weights)
        return self._publish(transport, record, describe_run, event_lines(outcome), weights)

    def compare(self, transport: Transport) -> int:
        """The same run through every strategy and serially; the exit code."""

        def run_one(config: RunConfig) -> Outcome:
            return self._run(config, transport, audit_gradients=True)

        found = compare(self.config, self.dataset, transport, run_one=run_one, frozen=self.frozen)
        runs = {
            name: self._record_of(outcome.config, transport, outcome)
            for name, outcome in found.outcomes.items()
        }
        apart = found.faults(self.config)
        verdicts = {
            name: "pass" if record["verdict"] == "pass" and not apart[name] else "fail"
            for name, record in runs.items()
        }
        document: Json = {
            "schema": COMPARE_SCHEMA,
            "runs": runs,
            "too_large": found.too_large,
            "differences_from_serial": _finite(found.differences),
            "loss_differences": _finite(found.loss_differences),
            "gradient_errors": _finite(found.gradient_errors),
            "faults": apart,
            "verdicts": verdicts,
            "agreement": [list(group) for group in must_agree(self.config, runs)],
            "verdict": "fail" if "fail" in verdicts.values() else "pass",
        }
        events = chain.from_iterable(
            event_lines(outcome, strategy=name) for name, outcome in found.outcomes.items()
        )
        return self._publish(transport, document, describe_comparison, events)

    def _run(self, config: RunConfig, transport: Transport, *, audit_gradients: bool = False) -> Outcome:
        progress = Progress(config.strategy, config.iterations, terminal=is_terminal("stderr"))
        speaks = transport.rank == 0 and not (self.outputs.quiet or self.outputs.json)
        return run(
            config,
            self.dataset,
            transport,
            on_iteration=progress if speaks else lambda iteration: None,
            keep_events=self.outputs.events is not None,
            audit_gradients=audit_gradients,
            frozen=self.frozen,
        )

    def _record_of(self, config: RunConfig, transport: Transport, outcome: Outcome) -> Json:
        partition = config.partition(self.dataset, transport.world_size)
        environment = describe_environment(self.transport) | {"data": self.dataset.name}
        return run_record(config, partition, outcome, environment)

    def _publish(
        self,
        transport: Transport,
        document: Json,
        describe: Callable[[Json], str],
        events: Iterable[str],
        weights: Iterable[bytes] = (),
    ) -> int:
        """The exit code, on every rank: 1 if an audit failed, 2 if rank 0 could not write a file."""
        code = EXIT_OK if document["verdict"] == "pass" else EXIT_REFUTED
        if transport.rank == 0 and not self.outputs.publish(document, describe, events, weights):
            code = code or EXIT_USAGE
        # Without a limit: a slow disk must not cost a good run. If rank 0 dies of it, that ends the others.
        codes: list[int] = transport.exchange(code, limit=None)
        return codes[0]


def _finite(values: dict[str, float]) -> dict[str, float | None]:
    """Numbers for JSON, which has no NaN."""
    return {name: value if isfinite(value) else None for name, value in values.items()}
