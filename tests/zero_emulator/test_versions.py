"""A view of another version than the iteration's is an error on every rank: it names layer and versions."""

import re
from typing import Any

import pytest

from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.run import run
from zero_emulator.strategies import VersionError
from zero_emulator.strategies.base import Strategy
from zero_emulator.strategies.zero3 import Zero3
from zero_emulator.theory import PLAIN

FAULT = re.compile(
    r"the view of layer (\d) is made of shards of versions ([\d, ]+) on ranks 0, 1, \.\.\.: "
    r"after (\d) updates it needs version (\d) of all"
)


@pytest.fixture
def told(run_ranks: Any, toy: Dataset, settings: dict[str, Any]) -> Any:
    """What every rank's VersionError says, alike on all of them: layer, versions, version needed."""

    def told(strategy: str, **chosen: Any) -> tuple[int, list[int], int]:
        config = RunConfig(strategy=strategy, **settings | {"iterations": 3} | chosen)

        def body(comm: Any) -> str:
            with pytest.raises(VersionError) as raised:
                run(config, toy, comm.transport)
            return str(raised.value)

        (message,) = set(run_ranks(body))
        match = FAULT.fullmatch(message)
        assert match, message
        layer, versions, updates, needed = match.groups()
        assert updates == needed
        return int(layer), [int(version) for version in versions.split(", ")], int(needed)

    return told


@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize(("world_size", "iteration"), [(1, 2), (2, 3), (3, 1), (3, 3)])
def test_a_rank_that_skips_an_update_is_found_out_by_all(
    told: Any, monkeypatch: Any, world_size: int, strategy: str, iteration: int
) -> None:
    """Even in the last iteration, after which no forward comes."""
    update_layers, culprit = Strategy.update_layers, world_size - 1

    def skipping(self: Strategy, scale: float) -> None:
        layers = self.layers
        if self.comm.rank == culprit and self.updates == iteration:
            self.layers = [layers[0], *layers[2:]]
        update_layers(self, scale)
        self.layers = layers

    monkeypatch.setattr(Strategy, "update_layers", skipping)
    versions = [iteration] * culprit + [iteration - 1]
    assert told(strategy) == (1, versions, iteration)


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("world_size", [2, 3])
def test_a_gather_that_began_before_the_update_is_stale(
    told: Any, monkeypatch: Any, world_size: int, prefetch: int
) -> None:
    finish, advance = Zero3.finish_iteration, Zero3.advance
    early = {}

    def too_early(self: Zero3, iteration: int) -> None:
        early[self.comm.rank] = self.start_gather(0)
        early[self.comm.rank].work.wait()
        finish(self, iteration)

    def kept(self: Zero3) -> None:
        advance(self)
        self.gathered[0], self.started = early[self.comm.rank], 1

    monkeypatch.setattr(Zero3, "finish_iteration", too_early)
    monkeypatch.setattr(Zero3, "advance", kept)
    assert told("zero3", prefetch=prefetch) == (0, [0] * world_size, 1)


@pytest.mark.parametrize("world_size", [2, 3])
def test_the_versions_are_those_that_the_ranks_have_told_each_other(
    run_ranks: Any, monkeypatch: Any, toy: Dataset, settings: dict[str, Any]
) -> None:
    """Read locally they would be right on every rank but the one that matters."""
    advance, seen = Strategy.advance, []

    def noting(self: Strategy) -> None:
        for params in self.layers:
            params.version += 10 * self.comm.rank  # nobody else can know
        advance(self)
        seen.append(self.versions.told[0].tolist())
        for params in self.layers:
            params.version -= 10 * self.comm.rank
        self.versions.told[0][...] = self.updates

    monkeypatch.setattr(Strategy, "advance", noting)
    config = RunConfig(strategy="zero3", **settings | {"iterations": 1})
    ranks = run_ranks(lambda comm: run(config, toy, comm.transport) and comm.world_size)
    assert all(told == [[1 + 10 * rank] * 3 for rank in range(ranks[0])] for told in seen)
