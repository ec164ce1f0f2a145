"""The waterfall from a claim to the counted bytes: its steps by hand, and that they always add up."""

import json
from dataclasses import replace
from operator import add
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.transports.threads import run_threads
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.declared import read_declared
from zero_emulator.explain import Explanation, explain
from zero_emulator.precision import ITEMSIZE
from zero_emulator.record import Json, run_record
from zero_emulator.recorded import Recorded
from zero_emulator.run import run
from zero_emulator.strategies import STRATEGIES
from zero_emulator.theory import CLAIMED, PLAIN

KINDS = ("training", "control", "audit")
WORLD_SIZES = (1, 2, 3, 4, 5, 7, 8)


def recorded(dataset: Dataset, num_ranks: int, *, audit_gradients: bool = False, **chosen: Any) -> Json:
    """The record of a run on threads, as a file holds it."""
    config = RunConfig(**{"hidden": (4,), "iterations": 2, "batch_size": 8} | chosen)
    outcome = run_threads(
        num_ranks, lambda transport: run(config, dataset, transport, audit_gradients=audit_gradients)
    )[0]
    record = run_record(config, config.partition(dataset, num_ranks), outcome, {})
    loaded: Json = json.loads(json.dumps(record))
    return loaded


def explained(record: Json, iteration: int = 2) -> Explanation:
    return explain(read_declared(Recorded, record, "record"), iteration)


def added(explanation: Explanation) -> dict[str, tuple[int, ...]]:
    """What each step adds on each rank, where it adds anything."""
    return {step.name: step.added for step in explanation.steps if any(step.added)}


def adds_up(record: Json, iteration: int) -> None:
    """The steps begin with the claim and end with what the record says was counted, rank by rank."""
    explanation = explained(record, iteration)
    assert explanation.remainders == ()
    weight = ITEMSIZE[RunConfig(**record["config"] | {"hidden": ()}).policy.weight]
    claim = CLAIMED[record["config"]["strategy"]].claim * record["num_params"] * weight
    assert explanation.steps[0].added == (claim,) * record["world_size"]
    for rank in range(record["world_size"]):
        traffic = record["iterations"][iteration - 1]["traffic"][rank]
        counted = (sum(traffic["sent"].values()), traffic["control_sent"], traffic["audit_sent"])
        for kind, one in zip(KINDS, counted, strict=True):
            steps = [step for step in explanation.steps if step.kind == kind]
            assert sum(step.added[rank] for step in steps) == one
            assert sum(step.whole_run[rank] for step in steps) == record["totals"][rank][kind]


@pytest.mark.parametrize("like", list(PLAIN))
def test_a_newcomer_needs_its_hooks_and_one_record_of_its_closed_forms(
    toy: Dataset, monkeypatch: pytest.MonkeyPatch, like: str
) -> None:
    """Whatever asks a strategy for its name would get this one's bytes wrong."""
    monkeypatch.setitem(STRATEGIES, "newcomer", type("Newcomer", (STRATEGIES[like],), {"name": "newcomer"}))
    monkeypatch.setitem(CLAIMED, "newcomer", replace(CLAIMED[like], travel="it is new"))
    chosen = {"micro_batches": 2, "precision": "bf16", "clip": 1.0}
    record = recorded(toy, 3, strategy="newcomer", audit_gradients=True, **chosen)
    assert record["faults"] == []
    adds_up(record, 1)
    adds_up(record, 2)
    assert "it is new" in explained(record).steps[0].why


@settings(max_examples=25)
@given(rng=st.randoms(use_true_random=True))
def test_the_steps_add_up_to_every_counted_byte_whatever_is_trained(
    toy: Dataset, spoilt: Dataset, any_run: Any, rng: Random
) -> None:
    chosen = any_run(rng)
    dataset, audit_gradients = rng.choice([toy, spoilt]), rng.choice([False, True])
    record = recorded(dataset, rng.randint(1, 8), audit_gradients=audit_gradients, **chosen)
    adds_up(record, rng.randint(1, chosen["iterations"]))


@pytest.mark.parametrize(
    ("strategy", "num_ranks"),
    [*(("zero3", size) for size in WORLD_SIZES), *((name, 3) for name in PLAIN if name != "zero3")],
)
def test_the_steps_add_up_on_every_world_size(toy: Dataset, strategy: str, num_ranks: int) -> None:
    adds_up(recorded(toy, num_ranks, strategy=strategy, micro_batches=2, clip=0.1), 2)


def test_each_effect_has_the_bytes_that_were_worked_out_by_hand(toy: Dataset) -> None:
    """Layers of 24 and 15 elements on 2 ranks: Ψ = 39, 2 bytes a weight."""
    record = recorded(
        toy, 2, strategy="zero3", micro_batches=3, keep_views="last", padding="2n", precision="bf16",
        reduce_dtype="float32", param_wire_dtype="float32", clip=1.0,
    )  # fmt: skip
    assert added(explained(record)) == {
        "claim": (234, 234),  # 3 · 39 · 2
        "reduce dtype": (78, 78),  # 39 · 2 more
        "weight dtype": (156, 156),  # twice as much
        "f(N)": (-234, -234),  # half of 468
        "micro-batches": (468, 468),  # twice the 234 more
        "kept views": (-90, -90),  # 3 gathers less of half the 15 in 4 bytes
        "padding": (12, 12),  # 1 zero: half of it in 3 · 2 gathers and reductions of 4 bytes
        "call checks": (128 * 21, 128 * 21),  # of 6 + 3 + 6 for training, 3 of control, 1 + 2 of audit
        "versions": (16, 16),
        "vote": (8, 8),
        "norm": (8, 8),
        "digest": (16, 16),
        "weights": (80, 80),
    }


def test_fp32_reduction_of_bf16_weights_sends_six_bytes_and_the_steps_say_why(toy: Dataset) -> None:
    explanation = explained(
        recorded(toy, 4, strategy="zero1", precision="bf16", reduce_dtype="float32", padding="even")
    )
    padded = added(explanation).pop("padding")
    psi = explanation.record.num_params
    assert psi % 4 != 0 < padded[0]
    claim, reduced, *_ = explanation.steps
    assert claim.added[0] + reduced.added[0] == 6 * psi
    assert reduced.why == "gradients are sent and added in float32, 4 bytes each"
    training = [step.added[0] for step in explanation.steps if step.kind == "training"]
    assert sum(training) == 6 * sum(map(sum, explanation.record.block_sizes)) * 3 // 4


def test_whole_layers_make_ranks_uneven_and_the_steps_show_by_how_much(toy: Dataset) -> None:
    """Layers of 24 and 15 on 3 ranks: one has nothing, so that its left neighbour sends all in a gather."""
    explanation = explained(recorded(toy, 3, strategy="zero1", cut="layers"))
    uneven = added(explanation)["uneven blocks"]
    # Of 2 · 39 numbers a rank sends all but its own and all but its right neighbour's: 52 if they were equal.
    assert uneven == (4 * (15 + 24 - 52), 4 * (24 + 39 - 52), 4 * (39 + 15 - 52))


def test_muon_fetches_the_matrices_that_ranks_share(toy: Dataset) -> None:
    """Matrices of 20 and 12 before biases of 4 and 3, on 2 ranks: 12 and 8, 8 and 4 numbers of them."""
    record = recorded(toy, 2, strategy="zero2", optimizer="muon")
    steps = added(explained(record))
    assert steps["muon's fetches"] == (4 * (12 + 8), 4 * (8 + 4))
    assert steps["fetch checks"] == (2 * 128, 2 * 128)
    whole = added(explained(recorded(toy, 2, strategy="zero2", optimizer="muon", cut="layers")))
    assert not {"muon's fetches", "fetch checks"} & set(whole)


def test_the_gradients_that_are_audited_are_those_that_add_up(toy: Dataset) -> None:
    """Kept in two dtypes, 40 numbers with their padding: half of them in the 4 bytes of the wider one."""
    record = recorded(
        toy, 2, strategy="zero2", precision="bf16+fp32grad", padding="even", audit_gradients=True
    )
    assert added(explained(record, iteration=1))["gradients"] == (80, 80)
    assert "gradients" not in added(explained(record, iteration=2))


def test_a_skipped_update_has_no_norm_and_no_fetch_and_the_steps_say_so(toy: Dataset) -> None:
    far = replace(toy, train_x=toy.train_x * 1e3)
    record = recorded(far, 3, strategy="zero2", precision="fp16", clip=0.1, optimizer="muon")
    assert [one["skipped"] for one in record["iterations"]] == [True, True]
    explanation = explained(record)
    why = {step.name: step.why for step in explanation.steps}
    assert {"norm", "muon's fetches", "fetch checks"}.isdisjoint(added(explanation))
    assert why["norm"] == "the vote said no, so there was nothing to clip"
    assert why["muon's fetches"] == "the vote said no, so there was nothing to fetch"
    assert explanation.remainders == ()


@pytest.mark.parametrize(
    ("place", "what"),
    [
        (("sent", "all_gather"), "sent by all_gather"),
        (("received", "reduce_scatter"), "received by reduce_scatter"),
        (("sent_by_phase", "update"), "sent in update"),
        (("control_sent",), "sent for control"),
        (("audit_sent",), "sent for audit"),
        (("sent", "all_reduce"), "sent by all_reduce"),
    ],
)
@pytest.mark.parametrize("change", [1, -1])
def test_one_byte_more_or_less_on_one_rank_remains(
    toy: Dataset, place: tuple[str, ...], what: str, change: int
) -> None:
    record = recorded(toy, 3, strategy="zero1")
    *way, last = place
    traffic = record["iterations"][0]["traffic"][1]
    for name in way:
        traffic = traffic[name]
    before = traffic.get(last, 0)
    traffic[last] = before + change
    (remainder,) = explained(record).remainders
    assert remainder == (1, 1, what, before + change, before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_byte_outside_the_iterations_remains(toy: Dataset, kind: str) -> None:
    record = recorded(toy, 3, strategy="zero1")
    record["totals"][2][kind] += 1
    total = record["totals"][2][kind]
    assert explained(record).remainders == ((None, 2, f"sent for {kind}", total, total - 1),)


def test_steps_that_do_not_add_up_themselves_are_found(toy: Dataset, monkeypatch: Any) -> None:
    """All closed forms are right, and still the table that is shown is not."""
    monkeypatch.setattr("zero_emulator.explain.sub", add)
    found = explained(recorded(toy, 3, strategy="zero1")).remainders
    assert {one.what for one in found} == {"sent, by the steps above"}
    assert {one.rank for one in found} == {0, 1, 2}
    assert {one.iteration for one in found} == {2, None}
