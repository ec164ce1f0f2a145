"""From what a strategy is said to send to what each rank sends for training, one thing switched at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from zero_emulator.expected_traffic import fetched_matrices, num_rounds
from zero_emulator.precision import ITEMSIZE, Precision
from zero_emulator.recorded import Recorded
from zero_emulator.theory import CLAIMED, Flow, KeepViews, Sizes, iteration_traffic

STAYING = {"none": "no view stays", "last": "the last layer's view stays", "all": "all views stay"}


@dataclass(frozen=True)
class Situation:
    """All that training bytes follow from.

    Blocks are ``scale`` times as large as they are: so equal ones are whole numbers, too.
    """

    strategy: str
    micro_batches: int
    """Or the runs of them, for strategies that reduce those."""
    keep_views: KeepViews
    precision: Precision
    blocks: tuple[Sizes, ...]
    scale: int
    fetched: tuple[Sizes, ...] = ()
    """Matrices that Muon gathers."""

    def flows(self, rank: int) -> dict[tuple[str, str], Flow]:
        """What a rank sends and receives in an iteration, by phase and collective, ``scale`` times."""
        uses = CLAIMED[self.strategy].uses(self.micro_batches, self.keep_views, self.precision)
        updated = ITEMSIZE[self.precision.updated]
        return iteration_traffic(uses, self.blocks, rank, self.fetched, updated)

    def sent(self, rank: int) -> int:
        """Bytes that a rank sends in an iteration, rounded down."""
        return sum(flow.sent for flow in self.flows(rank).values()) // self.scale


class Switched(NamedTuple):
    """What is from here on as it is in the run, the bytes' whole situation, and why it changes them."""

    name: str
    situation: Situation
    why: str


def switches(record: Recorded, *, skipped: bool) -> tuple[Switched, ...]:
    """The claim, and then one switch after the other; the last situation is that of the run's iterations.

    Of those, that is, whose update was ``skipped`` by vote or was not.
    """
    return tuple(_switches(record, skipped))


def _switches(record: Recorded, skipped: bool) -> Iterator[Switched]:
    claimed, weight = CLAIMED[record.config.strategy], record.config.policy.weight
    now = _claimed(record)
    yield Switched(
        "claim",
        now,
        f"{claimed.claim} x {record.num_params} parameters in {_dtype(weight)}: {claimed.travel}",
    )
    for name, changes, why in _changes(record, skipped):
        now = replace(now, **changes)
        yield Switched(name, now, why)


def _claimed(record: Recorded) -> Situation:
    """The situation of the claim: many ranks, one micro-batch, and all in the dtype of the weights."""
    policy, many = record.config.policy, max(record.world_size, 2)
    weight = policy.weight
    return Situation(
        record.config.strategy,
        micro_batches=1,
        keep_views="none",
        precision=replace(policy, gradient=weight, gradient_beside=None, reduce=weight, weight_wire=weight),
        blocks=_equal([layout.num_params for layout in record.layouts], many),
        scale=many - 1,  # as if the N - 1 blocks that a rank sends in a pass were all
    )


def _changes(record: Recorded, skipped: bool) -> tuple[tuple[str, dict[str, Any], str], ...]:
    """The table of steps: a name, what is switched, and why that changes what is sent."""
    config, num_ranks = record.config, record.world_size
    policy, layouts = config.policy, record.layouts
    zeros = sum(sum(layout.padding) for layout in layouts)
    fetched = fetched_matrices(config, record.matrices, skipped=skipped)
    reduced = replace(_claimed(record).precision, reduce=policy.reduce)
    kept = replace(reduced, gradient=policy.summed_gradient)
    return (
        ("reduce dtype", {"precision": reduced}, f"gradients are sent and added in {_dtype(policy.reduce)}"),
        ("gradient dtype", {"precision": kept}, f"their sums go back in {_dtype(policy.summed_gradient)}"),
        ("weight dtype", {"precision": policy}, f"weights are sent in {_dtype(policy.weight_wire)}"),
        (
            "f(N)",
            {"blocks": _equal([layout.num_params for layout in layouts], num_ranks), "scale": num_ranks},
            f"in a pass of the ring a rank sends {num_ranks - 1} of {num_ranks} blocks, never the whole",
        ),
        (
            "micro-batches",
            {"micro_batches": num_rounds(config)},
            f"{config.micro_batches} an iteration: {CLAIMED[config.strategy].each_micro_batch}",
        ),
        (
            "kept views",
            {"keep_views": config.keep_views},
            f"{STAYING[config.keep_views]} from forward to backward and need not be gathered again",
        ),
        (
            "padding",
            {"blocks": _equal([layout.size for layout in layouts], num_ranks)},
            f"{zeros} zeros, of --padding {config.padding}, travel like parameters",
        ),
        (
            "uneven blocks",
            {"blocks": record.block_sizes, "scale": 1},
            f"--cut {config.cut}: blocks differ, and so do ranks by the one block that each does not send",
        ),
        (
            "muon's fetches",
            {"fetched": fetched},
            "the vote said no, so there was nothing to fetch"
            if skipped
            else f"ranks that share a matrix gather its update in {_dtype(policy.updated)}",
        ),
    )


def _dtype(name: str) -> str:
    return f"{name}, {ITEMSIZE[name]} bytes each"


def _equal(layers: Sequence[int], num_ranks: int) -> tuple[Sizes, ...]:
    """Blocks of the size of a whole layer: of a situation that is scaled down."""
    return tuple((size,) * num_ranks for size in layers)
