"""Training on any algorithm: its bytes are those of its proof, and what is wrong is said beforehand."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from collectives.algorithms import ALGORITHMS, Algorithm
from collectives.transports.threads import run_threads
from zero_emulator import theory
from zero_emulator.chosen import CALLED, Chosen, choose
from zero_emulator.compare import must_agree
from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.judge import faults
from zero_emulator.run import Outcome, run
from zero_emulator.theory import PLAIN

ON_THREADS = ("--hidden", "4", "--iterations", "2", "--batch-size", "8", "--transport", "threads")

MINE = """
from collectives.algorithms import Algorithm, ring
from collectives.promises import REDUCE_SCATTER

def all_gather(rank, world_size):
    yield from ring.all_gather(rank, world_size)

def forgetful(rank, world_size):
    yield from list(ring.all_gather(rank, world_size))[:-1]

scattering = Algorithm("mine", REDUCE_SCATTER, ring.reduce_scatter, commutative_only=True)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: Any) -> Path:
    """A directory with a file of one's own to work in."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    return tmp_path


def allowed(world_size: int, collective: str) -> list[Algorithm]:
    those = [one for one in ALGORITHMS.values() if one.collective.name == collective]
    return [one for one in those if one.limit.allows(world_size)]


def trained(config: RunConfig, dataset: Dataset, num_ranks: int) -> Outcome:
    return run_threads(num_ranks, lambda transport: run(config, dataset, transport, poison=True))[0]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_trained_by_whatever_algorithms_is_expected_to_the_byte(
    any_run: Callable[[Random], dict[str, Any]], toy: Dataset, seed: int
) -> None:
    rng = Random(seed)
    num_ranks = rng.choice((1, 2, 3, 4, 4, 5))
    asked = tuple(f"{one}={rng.choice(allowed(num_ranks, one)).name}" for one in CALLED)
    config = RunConfig(algorithm=asked, **any_run(rng))
    found = faults(config, config.partition(toy, num_ranks), trained(config, toy, num_ranks))
    assert not found


@pytest.mark.parametrize("prefetch", [1, 4])
@pytest.mark.parametrize("keep_views", ["none", "all"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_gathers_in_flight_work_in_is_held_until_they_are_awaited(
    toy: Dataset, prefetch: int, keep_views: Any, precision: str
) -> None:
    """On one sample little else is held: three ranks of four compute on nothing."""
    how: dict[str, Any] = {"prefetch": prefetch, "keep_views": keep_views, "precision": precision}
    config = RunConfig(hidden=(16, 16, 16), batch_size=1, iterations=1, algorithm=("all_gather=pat",), **how)
    assert not faults(config, config.partition(toy, 4), trained(config, toy, 4))


@pytest.mark.parametrize(
    ("closed_form", "ring", "fault"),
    [
        ("flow", lambda self, *call: theory.ring_flow(*call), "counted backward all_reduce"),
        ("scratch", lambda self, *call, **how: theory.ring_scratch(*call, **how), "held"),
    ],
)
def test_another_algorithm_than_the_expected_one_is_told_by_its_bytes(
    toy: Dataset, monkeypatch: Any, closed_form: str, ring: Any, fault: str
) -> None:
    config = RunConfig("ddp", hidden=(4,), iterations=1, batch_size=8, algorithm=("recursive_doubling",))
    outcome = trained(config, toy, 4)
    assert not faults(config, config.partition(toy, 4), outcome)
    monkeypatch.setattr(Chosen, closed_form, ring)
    assert any(fault in found for found in faults(config, config.partition(toy, 4), outcome))


def test_strategies_agree_where_their_gradients_are_added_in_one_order() -> None:
    everybody = (tuple(PLAIN),)
    assert must_agree(RunConfig(algorithm=("all_gather=bruck",))) == everybody
    assert must_agree(RunConfig(algorithm=("reduce_scatter=pairwise",))) == (
        ("ddp",),
        ("zero1", "zero2", "zero3"),
    )
    # ddp calls a reduce_scatter then, as the others do.
    assert (
        must_agree(
            RunConfig(algorithm=("reduce_scatter=pairwise",), precision="bf16", reduce_dtype="float32")
        )
        == everybody
    )


def test_a_name_of_the_table_stands_for_all_that_it_is_there_for_and_the_last_word_counts() -> None:
    def names(*asked: str) -> list[str]:
        return [one.name for one in choose(asked).algorithms.values()]

    assert names() == ["ring", "ring", "ring"]
    assert names("pat") == ["pat", "pat", "ring"]
    assert names("pat", "all_gather=bruck") == ["bruck", "pat", "ring"]
    assert names("all_gather=bruck", "pat") == ["pat", "pat", "ring"]


def test_an_algorithm_of_ones_own_trains_and_the_record_names_it(command: Any, mine: Path) -> None:
    own = ("--algorithm", "mine.py:all_gather", "--algorithm", "mine.py:scattering")
    code, out, err = command("train", *ON_THREADS, "--ranks", 3, *own, "--record", "run.json")
    assert (code, err) == (0, "")
    assert "the exact bytes of the proof of --algorithm mine.py:all_gather, mine.py:scattering" in out
    assert json.loads(Path("run.json").read_text())["config"]["algorithm"] == [own[1], own[3]]
    code, _, err = command("explain", "run.json")
    assert code == 2
    assert "zero3 ran on --algorithm mine.py:all_gather, mine.py:scattering, and explain knows" in err


def test_a_comparison_runs_every_strategy_on_it(command: Any) -> None:
    algorithms = ("--algorithm", "direct", "--algorithm", "all_reduce=tree")
    code, out, _ = command("compare", *ON_THREADS, "--ranks", 3, *algorithms)
    assert code == 0
    assert "\nzero1 = zero2 = zero3, bit for bit" in out


REFUSED = {
    "nothing of that name": ("smoke", "--algorithm smoke: there are ring, bidirectional_ring, "),
    "no such collective": (
        "all_together=ring",
        "training calls all_gather, reduce_scatter, all_reduce, no 'all_",
    ),
    "not for that": ("all_gather=tree", "no algorithm 'tree' for all_gather: there are ring, "),
    "not for three": (
        "recursive_doubling",
        "needs a world size that is a power of two, and 3 is not: take ring",
    ),
    "no file": ("all_gather=none.py:f", "no file none.py"),
    "not in the file": ("all_gather=mine.py:f", "mine.py has no 'f'"),
    "for what": ("mine.py:forgetful", "exscan: say which by COLLECTIVE=mine.py:forgetful"),
    "refuted": (
        "all_gather=mine.py:forgetful",
        "--algorithm is refuted: forgetful all_gather on 3 ranks: rank 0 ",
    ),
    "another promise": (
        "all_gather=mine.py:scattering",
        "mine reduce_scatter is not an algorithm for all_gather",
    ),
    "never called": ("tree", "--algorithm tree: zero3 calls all_gather and reduce_scatter"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_run_is_refused_in_one_line_before_a_rank_starts(
    command: Any, mine: Path, monkeypatch: Any, why: str
) -> None:
    monkeypatch.setattr("collectives.ranks.run_threads", lambda *_: pytest.fail("a rank has started"))
    asked, told = REFUSED[why]
    code, out, err = command("train", *ON_THREADS, "--ranks", 3, "--algorithm", asked, "--record", "run.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert not Path("run.json").exists()


def test_an_algorithm_for_the_copies_of_shards_is_one_that_training_calls(command: Any) -> None:
    code, out, err = command(
        "train", *ON_THREADS, "--ranks", 4, "--shard-size", 2, "--algorithm", "all_reduce=tree", "--quiet"
    )
    assert (code, out, err) == (0, "verdict pass\n", "")
