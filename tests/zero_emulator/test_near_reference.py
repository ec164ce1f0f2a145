"""Training near a frozen model: the same bits from host and device, and every byte of it as predicted."""

import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from collectives.transports.threads import run_threads
from zero_emulator.batches import global_batches
from zero_emulator.compare import compare
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.dtypes import dtype_of
from zero_emulator.expected_memory import advise, expected_peak
from zero_emulator.frozen_reference import FrozenReference
from zero_emulator.judge import faults
from zero_emulator.losses import log_softmax
from zero_emulator.machine_memory import check_memory
from zero_emulator.meter import DeviceMemoryError, HostMemoryError
from zero_emulator.model import build_mlp, initial_parameters
from zero_emulator.offload import CopyTimeoutError, Link
from zero_emulator.run import Outcome, run
from zero_emulator.theory import Frozen
from zero_emulator.weight_files import Model, load_weights, save_weights

WIDTHS = (5, 6, 7, 4, 3)
SMALL = ("--hidden", "6,4", "--iterations", "2", "--batch-size", "8", "--transport", "threads", "--ranks", 2)


def told(on: str, kl: float = 0.3, widths: tuple[int, ...] = WIDTHS) -> FrozenReference:
    return FrozenReference("frozen.npz", widths, kl, on)


def frozen(config: RunConfig, seed: int = 9) -> Model | None:
    if config.reference is None:
        return None
    layers = build_mlp(config.reference.widths)
    return Model(layers, initial_parameters(layers, seed, dtype_of(config.policy.compute)))


def outputs_of(model: Any, x: Any) -> Any:
    for layer, params in zip(*model, strict=True):
        x, _ = layer.forward(params, x)
    return x


@pytest.fixture
def near(run_ranks: Callable[..., list[Any]], toy: Dataset, settings: dict[str, Any]) -> Any:
    """Train on all ranks of the test; the outcome, which must have no fault."""

    def near(strategy: str = "zero3", **chosen: Any) -> Outcome:
        config = RunConfig(strategy=strategy, **settings | {"dtype": None} | chosen)
        body = partial(run, config, toy, poison=True, audit_gradients=True, frozen=frozen(config))
        outcome = run_ranks(lambda comm: body(comm.transport))[0]
        assert faults(config, config.partition(toy, len(outcome.reports)), outcome) == []
        return outcome

    return near


@pytest.mark.parametrize("precision", ["fp32", "fp64", "bf16"])
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_the_host_gives_the_bits_of_the_device(near: Any, precision: str) -> None:
    host, device = (near(precision=precision, reference=told(on)) for on in ("host", "device"))
    assert host.losses == device.losses
    for streamed, resident in ((host.weights, device.weights), (host.gradients, device.gradients)):
        for one, other in zip(streamed, resident, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("strategy", ["ddp", "zero1", "zero2"])
@pytest.mark.parametrize("world_size", [2])
def test_so_it_does_with_every_strategy(near: Any, strategy: str) -> None:
    host, device = (near(strategy, micro_batches=2, reference=told(on)) for on in ("host", "device"))
    assert host.digests == device.digests


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [3])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_trained_holds_and_moves_what_the_closed_forms_say(
    near: Any, any_run: Any, seed: int
) -> None:
    """The peak in bytes and by its moment, the reference's residency, and what crosses the link."""
    rng = Random(seed)
    widths = (5, *(rng.randint(1, 30) for _ in range(rng.randint(0, 3))), 3)
    near(**any_run(rng), reference=told(rng.choice(["host", "device"]), widths=widths))


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [3])
def test_the_most_on_the_device_are_two_neighbours_or_all_and_a_forward_moves_one_model(near: Any) -> None:
    layers = [8 * (inputs + 1) * outputs for inputs, outputs in pairwise(WIDTHS)]
    chosen = {"dtype": "float64", "batch_size": 5, "micro_batches": 2}  # 3 rows for 3 ranks, then 2
    streamed = [report.reference for report in near(reference=told("host"), **chosen).reports]
    assert [one.most_bytes for one in streamed] == [max(map(sum, pairwise(layers)))] * 3
    assert [[crossed.num_bytes for crossed in one.crossed] for one in streamed] == [
        [forwards * sum(layers)] * 2 for forwards in (2, 2, 1)
    ]
    for report in near(reference=told("device"), **chosen).reports:
        assert report.reference == (sum(layers), [(0, None)] * 2)


def test_the_residency_of_few_layers_is_that_of_the_model() -> None:
    assert Frozen((4, 3), 8, streams=True).most([2]) == 8 * 15
    assert Frozen((4, 3, 2), 8, streams=True).most([0, 2]) == 8 * (15 + 8)
    assert Frozen((4, 3, 2), 8, streams=True).most([0, 0]) == 0
    assert Frozen((4, 3, 2), 8, streams=False).most([0, 0]) == 8 * (15 + 8)


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [4])
@pytest.mark.parametrize("on", ["host", "device"])
@pytest.mark.parametrize("chunks", [1, 2])
def test_in_a_pipeline_only_the_last_stage_has_the_reference(near: Any, on: str, chunks: int) -> None:
    chosen = {"hidden": (4, 3, 4), "micro_batches": 2, "dtype": "float64", "reference": told(on)}
    staged = near("zero1", pipeline=2, chunks=chunks, **chosen)
    assert [report.reference.most_bytes > 0 for report in staged.reports] == [False, False, True, True]
    assert staged.losses == pytest.approx(near("zero1", **chosen).losses, rel=1e-13)


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [3])
def test_the_loss_gains_the_mean_divergence_over_the_global_batch(near: Any, toy: Dataset) -> None:
    chosen = {"dtype": "float64", "iterations": 1, "micro_batches": 2}
    with_it, without = near(reference=told("host", kl=0.7), **chosen), near(**chosen)
    config = with_it.config
    layers = config.partition(toy, 1).layers
    own = Model(layers, initial_parameters(layers, config.seed, np.float64))
    ((x, _),) = global_batches(config, toy)
    log_p, log_q = (log_softmax(outputs_of(model, x)) for model in (own, frozen(config)))
    divergence = np.mean(np.sum(np.exp(log_p) * (log_p - log_q), axis=1))
    assert divergence > 0.01
    assert with_it.losses == pytest.approx([without.losses[0] + 0.7 * divergence], rel=1e-13)


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [2])
def test_a_run_near_its_own_start_begins_with_the_plain_loss(near: Any, monkeypatch: Any) -> None:
    chosen = {"dtype": "float64", "hidden": (6, 7, 4), "seed": 9}
    near_its_start, plain = near(reference=told("host"), **chosen), near(**chosen)
    assert near_its_start.losses[0] == pytest.approx(plain.losses[0], rel=1e-13)
    assert near_its_start.losses[1] > plain.losses[1]


@pytest.mark.parametrize("on", ["host", "device"])
@pytest.mark.parametrize("strategy", ["ddp", "zero3"])
def test_it_trains_on_the_device_that_the_closed_form_asks_for_and_on_no_smaller_one(
    toy: Dataset, settings: dict[str, Any], strategy: str, on: str
) -> None:
    config = RunConfig(strategy=strategy, **settings, reference=told(on, widths=(5, 40, 40, 3)))
    partition = config.partition(toy, 2)
    needed = max(expected_peak(config, partition, rank).total for rank in range(2))
    for limit, message in ((needed, None), (needed - 1, r"bytes of \w+ do not fit in the ")):
        limited = replace(config, device_memory=limit)
        on_ranks = partial(run_threads, 2, partial(run, limited, toy, frozen=frozen(limited)))
        if message is None:
            assert faults(limited, partition, on_ranks()[0]) == []
        else:
            with pytest.raises(DeviceMemoryError, match=message):
                on_ranks()


def test_what_fits_in_two_slots_and_not_at_once_trains_from_the_host_alone(
    command: Any, folder: Path
) -> None:
    layers = build_mlp((64, 32, 32, 32, 32, 32, 10))
    save_weights(Path("frozen.npz"), layers, initial_parameters(layers, 1, np.float32))
    train = ("train", *SMALL, "--reference", "frozen.npz", "--kl", "0.1", "--device-memory", "28kB")
    code, out, err = command(*train)
    assert (code, err) == (0, "")
    assert "\nverdict pass\n" in out
    code, out, err = command(*train, "--reference-on", "device")
    assert (code, out) == (3, "")
    assert re.fullmatch(
        r"rank \d raised DeviceMemoryError: \d+ bytes of \w+ do not fit in .*: zero3 holds \d+ on 2 ranks, "
        r"and with --reference-on host \d+\n",
        err,
    )


def test_a_grid_whose_device_is_too_small_is_advised_to_stream(
    toy: Dataset, settings: dict[str, Any]
) -> None:
    config = RunConfig(**settings, pipeline=2, device_memory=100, reference=told("device"))
    assert advise(config, config.partition(toy, 2)).endswith(
        ", or more micro-batches, or --reference-on host"
    )
    streamed = replace(config, reference=told("host"))
    assert advise(streamed, streamed.partition(toy, 2)).endswith(", or more micro-batches")


def test_a_reference_that_no_machine_could_read_is_refused_by_name(
    toy: Dataset, settings: dict[str, Any]
) -> None:
    config = RunConfig(**settings, reference=told("host", widths=(5, 10**12, 3)))
    with pytest.raises(
        ValueError, match=r"^--reference frozen\.npz takes \d+ GB of memory or more for 2 ranks"
    ):
        check_memory(config, toy, 2, ranks_here=2)


def test_a_host_that_is_too_small_for_the_reference_says_so(toy: Dataset, settings: dict[str, Any]) -> None:
    config = RunConfig(**settings, reference=told("host"), host_memory=100)
    taken = "of the 100 of --host-memory are taken"
    with pytest.raises(
        HostMemoryError, match=f"{taken}.*: take a larger --host-memory or --reference-on device"
    ):
        run_threads(1, partial(run, config, toy, frozen=frozen(config)))


def test_a_copy_that_never_lands_ends_the_run_after_the_time_limit(
    toy: Dataset, settings: dict[str, Any], monkeypatch: Any
) -> None:
    over = threading.Event()
    monkeypatch.setattr(Link, "to_device", lambda *_: over.wait(20))
    config = RunConfig(**settings, reference=told("host"), time_limit=0.1)
    try:
        with pytest.raises(CopyTimeoutError, match=r"waited 0\.1 s for"):
            run_threads(1, partial(run, config, toy, frozen=frozen(config)))
    finally:
        over.set()


def test_a_run_leaves_no_copy_thread(toy: Dataset, settings: dict[str, Any], monkeypatch: Any) -> None:
    config = RunConfig(**settings, reference=told("host"))
    before = threading.active_count()
    run_threads(2, partial(run, config, toy, frozen=frozen(config)))
    assert threading.active_count() == before


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [3])
def test_ranks_with_other_reference_weights_are_refused_by_name(
    run_ranks: Any, toy: Dataset, settings: dict[str, Any]
) -> None:
    config = RunConfig(**settings, reference=told("host"))

    def body(comm: Any) -> None:
        with pytest.raises(ValueError, match=r"^rank 0 has reference weights \w+, rank 2 has "):
            run(config, toy, comm.transport, frozen=frozen(config, seed=comm.rank // 2))

    run_ranks(body)


def test_another_model_than_the_run_is_told_of_is_refused(toy: Dataset, settings: dict[str, Any]) -> None:
    config = RunConfig(**settings, reference=told("host"))
    with pytest.raises(ValueError, match=r"the reference has widths None, and the run is told of \(5, 6, "):
        run_threads(1, partial(run, config, toy))


@pytest.mark.on_threads
@pytest.mark.parametrize("world_size", [3])
@pytest.mark.parametrize(
    "chosen", [{"precision": "fp16", "iterations": 4}, {"micro_batches": 2, "clip": 0.1}]
)
def test_serial_training_knows_the_reference(
    run_ranks: Any, spoilt: Dataset, toy: Dataset, settings: dict[str, Any], chosen: dict[str, Any]
) -> None:
    """With float16 the loss is scaled, and updates are skipped."""
    data = spoilt if "precision" in chosen else toy
    config = RunConfig(**settings | {"dtype": None} | chosen, reference=told("host", kl=2.0))
    model = frozen(config)

    def body(comm: Any) -> dict[str, list[str]]:
        run_one = partial(run, dataset=data, transport=comm.transport, audit_gradients=True, frozen=model)
        return compare(config, data, comm.transport, run_one=run_one, frozen=model).faults(config)

    assert not any(run_ranks(body)[0].values())


def test_what_train_saves_compare_holds_against(command: Any, folder: Path) -> None:
    assert command("train", *SMALL, "--save", "w.npz", "--quiet")[0] == 0
    assert load_weights(Path("w.npz"), 64, 10, "float32").layers == build_mlp((64, 6, 4, 10))
    model = 4 * (65 * 6 + 7 * 4 + 5 * 10)
    near = ("--reference", "w.npz", "--kl", "0.1", "--link-bandwidth", "1", "--record", "run.json")
    code, out, _ = command("train", *SMALL, *near)
    assert code == 0
    assert re.search(
        r"^  reference w\.npz, KL x 0\.1: 1672 bytes on the device at most, 1872 bytes over the link an "
        r"iteration, [\d.e+]+ ms of waiting for it \(modelled\)$".replace("1872", str(model)),
        out,
        re.M,
    )
    record = json.loads(Path("run.json").read_text())
    assert record["config"]["reference"] == {
        "file": "w.npz", "widths": [64, 6, 4, 10], "kl": 0.1, "on": "host"
    }  # fmt: skip
    for rank in record["reference"]:
        stall = rank.pop("modelled_stall")
        assert 2 * model - 10 < stall <= 2 * model  # a byte a second, less the seconds of computing
        assert rank == {
            "on_device": 1672, "expected_on_device": 1672,
            "to_device": 2 * model, "expected_to_device": 2 * model,
        }  # fmt: skip
    code, out, _ = command("compare", *SMALL, *near[:4], "--reference-on", "device")
    assert code == 0
    assert f"\nreference w.npz, KL x 0.1: {model} bytes on the device at most, 0 bytes over" in out
    assert command("explain", "run.json")[0] == 0


REFUSED = {
    "--kl 0.1": "--kl 0.1 without --reference: name a file that train --save has written",
    "--reference-on device": "--reference-on device without --reference: name a file, or drop it",
    "--reference w.npz": "--reference w.npz without --kl: say how near it holds, as --kl 0.1",
    "--reference w.npz --kl 0": "--kl 0: give a number above 0",
    "--reference w.npz --kl nan": "--kl nan: give a number above 0",
    "--reference w.npz --kl 0.1 --loss mse": "--reference with --loss mse, whose outputs are no",
    "--reference no.npz --kl 0.1": "no.npz: no such file",
    "--reference other.npz --kl 0.1": "other.npz: a model of 5 inputs, the data set has 64",
    "--reference w.npz --kl 0.1 --record w.npz": "--reference and --record are both w.npz: name two files",
    "--reference w.npz --kl 0.1 --reference-on moon": "'moon' is not one of",
    "--link-bandwidth 1GB": "--link-bandwidth 1e+09: nothing is on the host: give --offload, or",
    "--host-memory 1GB": "--host-memory 1e+09: nothing is on the host: give --offload, or",
    "--reference w.npz --kl 0.1 --link-bandwidth fast": "'fast' is no size",
}


@pytest.mark.parametrize(
    ("name", "arguments"), [*(("train", arguments) for arguments in REFUSED), ("compare", "--kl 0.1")]
)
def test_a_reference_that_cannot_work_is_refused_in_one_line_before_any_rank_starts(
    command: Any, folder: Path, monkeypatch: Any, name: str, arguments: str
) -> None:
    monkeypatch.setattr("collectives.ranks.launch", None)
    for file, widths in (("w.npz", (64, 4, 10)), ("other.npz", WIDTHS)):
        layers = build_mlp(widths)
        save_weights(Path(file), layers, initial_parameters(layers, 1, np.float32))
    code, out, err = command(name, *arguments.split())
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert REFUSED[arguments] in err
    assert sorted(path.name for path in folder.iterdir()) == ["other.npz", "w.npz"]
