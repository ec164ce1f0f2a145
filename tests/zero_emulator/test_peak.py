"""The peak of memory: what the meter has seen is what the closed form says, by kind, and when."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.transports.threads import run_threads
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.expected_memory import expected_peak
from zero_emulator.precision import PRECISIONS
from zero_emulator.run import run
from zero_emulator.strategies import STRATEGIES


def assert_peak(config: RunConfig, dataset: Dataset, num_ranks: int) -> None:
    outcome = run_threads(num_ranks, lambda transport: run(config, dataset, transport, poison=True))[0]
    partition = config.partition(dataset, num_ranks)
    for rank, report in enumerate(outcome.reports):
        assert report.peak == expected_peak(config, partition, rank, report.skipped)


@settings(max_examples=150)
@given(
    num_ranks=st.integers(1, 5),
    strategy=st.sampled_from(list(STRATEGIES)),
    hidden=st.lists(st.integers(1, 9), max_size=3).map(tuple),
    batch_size=st.integers(1, 9),
    micro_batches=st.integers(1, 3),
    keep_views=st.sampled_from(["none", "last", "all"]),
    prefetch=st.integers(0, 4),
    precision=st.sampled_from(list(PRECISIONS)),
    grad_dtype=st.sampled_from([None, None, "float32", "float64", "bfloat16"]),
    reduce_dtype=st.sampled_from([None, None, "float32", "float64"]),
    param_wire_dtype=st.sampled_from([None, None, "float64"]),
    optimizer=st.sampled_from(
        [
            {"optimizer": "sgd"},
            {"optimizer": "sgd", "momentum": 0.5},
            {},
            {"optimizer": "adamw"},
            {"optimizer": "muon"},
        ]
    ),
    clip=st.sampled_from([None, 0.1]),
    loss=st.sampled_from(["cross_entropy", "mse"]),
    layout=st.sampled_from(
        [{}, {"padding": "even"}, {"padding": "2n"}, {"padding": "rows"}, {"cut": "layers"}]
    ),
)
def test_whatever_is_trained_holds_at_most_what_the_closed_form_says(
    toy: Dataset, num_ranks: int, optimizer: dict[str, Any], layout: dict[str, Any], **chosen: Any
) -> None:
    assert_peak(RunConfig(iterations=2, **chosen, **optimizer, **layout), toy, num_ranks)
