"""What a rank has kept, held, or copied from its host and no closed form expects, in words."""

from collections.abc import Iterator

from zero_emulator.config import RunConfig
from zero_emulator.expected_link import expected_link
from zero_emulator.expected_memory import expected_gradients, expected_peak, expected_persistent, knows_peak
from zero_emulator.expected_reference import expected_crossing, expected_residency
from zero_emulator.outcome import Outcome
from zero_emulator.partition import Partition


def memory_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
    """All of them, a subject after the other."""
    for subject in (_persistent_faults, _gradient_faults, _peak_faults, _reference_faults, _link_faults):
        yield from subject(config, partition, outcome)


def _persistent_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
    for rank, report in enumerate(outcome.reports):
        expected = expected_persistent(config, partition, rank)
        if report.persistent != expected:
            yield f"rank {rank} keeps {_sizes(report.persistent)}, expected {_sizes(expected)}"


def _gradient_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
    for rank, report in enumerate(outcome.reports):
        expected = expected_gradients(config, partition, rank)
        if report.gradient_bytes != expected:
            yield (
                f"rank {rank} had at most {report.gradient_bytes} bytes of gradients at once, "
                f"expected {expected}"
            )


def _peak_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
    if not knows_peak(config, partition):
        return  # no closed form of all that passes
    for rank, report in enumerate(outcome.reports):
        expected = expected_peak(config, partition, rank, report.skipped)
        if report.peak != expected:
            yield f"rank {rank} held {report.peak}; expected {expected}"


def _reference_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
    """The frozen model's bytes on the device, and over the link, that no closed form expects."""
    for rank, report in enumerate(outcome.reports):
        most, expected = report.reference.most_bytes, expected_residency(config, partition, rank)
        if most != expected:
            yield f"rank {rank} has {most} bytes of the reference on the device at most, expected {expected}"
        expected = expected_crossing(config, partition, rank)
        for iteration, crossed in enumerate(report.reference.crossed, start=1):
            if crossed.num_bytes != expected:
                yield (
                    f"iteration {iteration}, rank {rank}: {crossed.num_bytes} bytes of the reference came "
                    f"over the link, expected {expected}"
                )


def _link_faults(config: RunConfig, partition: Partition, outcome: Outcome) -> Iterator[str]:
    for rank, report in enumerate(outcome.reports):
        for iteration, copied in enumerate(report.link, start=1):
            expected = expected_link(config, partition, rank, skipped=iteration in report.skipped)
            if copied != expected:
                yield (
                    f"iteration {iteration}, rank {rank}: copied {copied.to_host}/{copied.to_device} bytes "
                    f"over the link, expected {expected.to_host}/{expected.to_device} (to host/to device)"
                )


def _sizes(persistent: dict[str, int]) -> str:
    return ", ".join(f"{num_bytes} bytes of {kind}" for kind, num_bytes in persistent.items())
