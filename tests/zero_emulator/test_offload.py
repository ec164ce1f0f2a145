"""Gradients and optimizer state on the host: the same bits, exact bytes over the link, a smaller device."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from collectives.transports.delaying import DelayingTransport
from collectives.transports.threads import run_threads
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.expected_memory import advise
from zero_emulator.judge import faults
from zero_emulator.meter import DeviceMemoryError, HostMemoryError
from zero_emulator.offload import Copier, Slot, SlotError
from zero_emulator.outcome import Outcome
from zero_emulator.run import run
from zero_emulator.strategies import OFFLOADED
from zero_emulator.strategies.reduction import Reduction, ReductionToHost

BOTH = ("gradients", "optimizer")
OFFLOADS = (("gradients",), ("optimizer",), BOTH)
CHUNKS = {"chunks": 3, "hidden": (4, 3, 5, 2)}
"""Five layers in three chunks, of uneven blocks."""


def config_of(strategy: str = "pipeline_zero2", **chosen: Any) -> RunConfig:
    given = {"micro_batches": 3, "batch_size": 11, "iterations": 2, "lr": 0.02, "dtype": "float64", **CHUNKS}
    return RunConfig(**{"strategy": strategy, **given, **chosen})


def trained(
    config: RunConfig, dataset: Dataset, ranks: int = 2, wrap: Callable[[Any], Any] = lambda one: one
) -> Outcome:
    return run_threads(ranks, lambda transport: run(config, dataset, wrap(transport), poison=True))[0]


def found_faults(outcome: Outcome, dataset: Dataset) -> list[str]:
    return faults(outcome.config, outcome.config.partition(dataset, len(outcome.reports)), outcome)


@pytest.fixture
def slow_copies(monkeypatch: Any) -> None:
    """A copy thread that is always late."""
    submit = Copier.submit

    def late(self: Copier, job: Callable[[], None]) -> Any:
        submit(self, lambda: time.sleep(0.001))
        return submit(self, job)

    monkeypatch.setattr(Copier, "submit", late)


@pytest.mark.parametrize(
    ("strategy", "micro_batches", "offloads"),
    [
        *((strategy, 1, [BOTH]) for strategy in OFFLOADED),
        *((strategy, 3, [("gradients",)]) for strategy in OFFLOADED),
        ("pipeline_zero2", 8, OFFLOADS),
    ],
)
def test_whatever_is_on_the_host_the_bits_are_the_same_and_the_bytes_exact(
    toy: Dataset, slow_copies: None, strategy: str, micro_batches: int, offloads: Any
) -> None:
    config = config_of(strategy, micro_batches=micro_batches)
    expected = trained(config, toy)
    for offload in offloads:
        outcome = trained(replace(config, offload=offload), toy, wrap=DelayingTransport)
        assert outcome.digests == expected.digests
        assert found_faults(outcome, toy) == []


@pytest.mark.parametrize(
    ("strategy", "offload", "more"),
    [
        ("zero3", BOTH, {"precision": "bf16", "clip": 0.5, "reduce_dtype": "float32"}),
        (
            "pipeline_zero2",
            ("gradients",),
            {"precision": "bf16+fp32grad", "schedule": "gpipe", "pipeline": 2},
        ),
        ("zero2", ("optimizer",), {"precision": "fp16", "padding": "even"}),
        ("pipeline_zero2", BOTH, {"dtype": "float64", "clip": 0.05, "cut": "layers"}),
    ],
)
def test_no_precision_or_layout_changes_a_bit_or_a_byte(
    spoilt: Dataset, strategy: str, offload: tuple[str, ...], more: dict[str, Any]
) -> None:
    """Where ranks vote they skip updates, and nothing is copied for those."""
    config = config_of(strategy, **{"dtype": None, "iterations": 4, "batch_size": 4, "chunks": 2, **more})
    expected, outcome = (trained(replace(config, offload=one), spoilt) for one in ((), offload))
    assert outcome.digests == expected.digests
    assert [fault for fault in found_faults(outcome, spoilt) if "finite" not in fault] == []
    if config.policy.votes:
        assert 0 < len(outcome.reports[0].skipped) < 4


@pytest.mark.parametrize("strategy", ["ddp", "zero1"])
def test_an_optimizer_on_the_host_goes_with_gradients_that_are_whole(toy: Dataset, strategy: str) -> None:
    config = config_of(strategy, chunks=1)
    outcome = trained(replace(config, offload=("optimizer",)), toy, 3)
    assert outcome.digests == trained(config, toy, 3).digests
    assert found_faults(outcome, toy) == []


def test_a_link_carries_each_reduced_block_to_the_host_and_for_an_update_once_back(toy: Dataset) -> None:
    """24 + 15 + 20 + 12 + 9 parameters on one rank, three micro-batches, numbers of 8 bytes."""
    copied = {offload: trained(config_of(offload=offload), toy, 1).reports[0].link[0] for offload in OFFLOADS}
    psi = 8 * (24 + 15 + 20 + 12 + 9)
    assert copied == {("gradients",): (3 * psi, psi), ("optimizer",): (psi, psi), BOTH: (3 * psi, psi)}


def test_a_device_that_has_no_room_for_gradients_trains_with_two_chunks_of_them(toy: Dataset) -> None:
    config = config_of(hidden=(12,) * 7, chunks=8, batch_size=3)
    peaks = {
        offload: max(report.peak.total for report in trained(replace(config, offload=offload), toy).reports)
        for offload in ((), ("gradients",))
    }
    least = peaks["gradients",]
    assert least < peaks[()]
    assert found_faults(trained(replace(config, offload=("gradients",), device_memory=least), toy), toy) == []
    with pytest.raises(DeviceMemoryError):
        trained(replace(config, device_memory=least), toy)
    with pytest.raises(
        DeviceMemoryError, match=r"do not fit .*: take more ranks, .* --chunks of fewer layers"
    ):
        trained(replace(config, offload=("gradients",), device_memory=least - 1), toy)


def test_a_host_has_a_limit_of_its_own_and_says_which_options_fill_it(toy: Dataset) -> None:
    config = config_of(offload=BOTH, host_memory=1000)
    taken = "of the 1000 of --host-memory are taken, .*: take a larger --host-memory"
    with pytest.raises(
        HostMemoryError, match=rf"{taken} or drop --offload gradients or drop --offload optimizer"
    ):
        trained(config, toy)


@pytest.mark.parametrize(
    ("strategy", "chunks"), [("zero2", ""), ("pipeline_zero2", ", or --chunks of fewer layers")]
)
def test_smaller_chunks_are_advised_where_slots_hold_chunks(toy: Dataset, strategy: str, chunks: str) -> None:
    config = config_of(strategy, offload=("gradients",))
    advice = advise(config, config.partition(toy, 2))
    assert advice == f"take more ranks, or more micro-batches{chunks}"


def test_a_host_that_is_too_small_for_what_passes_says_when(toy: Dataset, monkeypatch: Any) -> None:
    """Of one rank, moments and master of three times 640 bytes stay there, and one gradient passes."""
    config = config_of("zero2", offload=("optimizer",), host_memory=3 * 640 + 8 * 24 - 1)
    with pytest.raises(HostMemoryError, match="192 bytes of buffer do not fit in the update in iteration 1"):
        trained(config, toy, 1)


def test_an_offloaded_gradient_that_is_copied_where_it_should_add_up_is_refuted(
    toy: Dataset, monkeypatch: Any
) -> None:
    config = config_of(offload=("gradients",))
    expected = trained(config, toy).digests

    def copied(self: ReductionToHost, block: Any) -> None:
        self.replace = True
        add(self, block)

    add = Reduction.add
    monkeypatch.setattr(ReductionToHost, "add", copied)
    assert trained(config, toy).digests != expected


@pytest.mark.parametrize("strategy", OFFLOADED)
def test_a_slot_that_is_written_before_its_copy_is_done_is_refused(
    toy: Dataset, monkeypatch: Any, strategy: str
) -> None:
    def rings_alone(self: Slot) -> None:
        while self._users and self._users[0][0].startswith("the reduce_scatter"):
            self._users.popleft()[1]()

    monkeypatch.setattr(Slot, "settle", rings_alone)
    with pytest.raises(SlotError, match=r"the sum of layer \d+ has not been awaited"):
        trained(config_of(strategy, offload=("gradients",), time_limit=5.0), toy)


def test_a_block_that_is_copied_twice_is_refuted_with_its_bytes(toy: Dataset, monkeypatch: Any) -> None:
    start = ReductionToHost._start_copy

    def twice(self: ReductionToHost) -> bool:
        if self._copy is None:
            self.host.transfers.to_host("again", self.block, np.empty_like(self.block)).wait()
        return start(self)

    monkeypatch.setattr(ReductionToHost, "_start_copy", twice)
    found = found_faults(trained(config_of(offload=("gradients",)), toy), toy)
    assert len(found) == 4
    assert found[0].startswith("iteration 1, rank 0: copied ")


def test_moments_that_stay_on_the_device_are_kept_too_much(toy: Dataset, monkeypatch: Any) -> None:
    config = config_of(offload=("optimizer",))
    outcome = trained(config, toy)
    assert set(outcome.reports[0].persistent) == {"weight", "gradient", "host master", "host moment"}
    outcome.reports[1].persistent["moment"] = outcome.reports[1].persistent.pop("host moment")
    (fault,) = found_faults(outcome, toy)
    assert fault.startswith("rank 1 keeps ")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--strategy", "zero1", "--offload", "gradients"), "zero1 keeps them whole: take zero2, zero3"),
        (("--offload", "optimizer", "--optimizer", "muon"), "take another --optimizer"),
        (("--offload", "gradients", "--shard-size", "1"), "drop one"),
        (("--host-memory", "1GB"), "nothing is on the host: give --offload"),
        (("--link-bandwidth", "1GB"), "nothing is on the host: give --offload"),
    ],
)
def test_what_cannot_be_kept_on_a_host_is_said_before_a_rank_starts(
    command: Any, arguments: tuple[str, ...], reason: str
) -> None:
    code, _, err = command("train", "--transport", "threads", "--ranks", "2", *arguments)
    assert code == 2
    assert reason in err
    assert len(err.splitlines()) == 1


def test_the_report_says_what_is_on_the_host_and_goes_over_the_link(command: Any) -> None:
    code, out, _ = command(
        "train", "--transport", "threads", "--ranks", "2", "--strategy", "zero3", "--iterations", "2",
        "--hidden", "4", "--offload", "gradients", "--offload", "optimizer", "--link-bandwidth", "1KB",
    )  # fmt: skip
    lines = out.splitlines()
    assert code == 0
    assert "  persistent          2 bytes a parameter" in lines  # half of the weights
    assert "  on the host         8 bytes a parameter" in lines  # half of gradient, master and two moments
    assert "  over the link       620 bytes to the host, 620 to the device an iteration" in lines
    assert any("modelled stall" in line for line in lines)
    stalls = [line.split(" s in ")[1] for line in lines if "(modelled, not measured)" in line]
    assert stalls == [
        f"2 copies of the {what} (modelled, not measured)"
        for what in (
            "gradient of layer 1",
            "gradient of layer 0",
            "weight of own layer 0",
            "weight of own layer 1",
        )
    ]
