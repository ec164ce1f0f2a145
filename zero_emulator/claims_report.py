"""Why a strategy's multiple of Ψ is not its claim's, in notes under a report."""

from collections.abc import Collection

from zero_emulator.chosen import no_rings
from zero_emulator.config import RunConfig
from zero_emulator.documents import Json
from zero_emulator.expected_traffic import num_rounds
from zero_emulator.precision import find_precision
from zero_emulator.theory import CLAIMED, UPDATES, is_sharded


def notes_on_claims(config: Json, strategies: Collection[str]) -> list[str]:
    """A note for each reason that holds for any of these strategies."""
    many = config["micro_batches"]
    notes = []
    if others := no_rings(config["algorithm"]):
        notes.append(f"the claims are of rings, the exact bytes of the proof of --algorithm {others}")
    passes = {name: _passes(name, _rounds(name, config)) for name in strategies}
    more = [f"{name} sends {times}Ψ" for name, times in passes.items() if times != CLAIMED[name].claim]
    if more:
        notes.append(f"the claims are for one micro-batch: with {many} {', '.join(more)}")
    sharers = ", ".join(name for name in strategies if is_sharded(name, "moment"))
    if UPDATES[config["optimizer"]].whole_matrices and config["cut"] == "even" and sharers:
        optimizer = config["optimizer"]
        notes.append(f"{optimizer}: updates of matrices that ranks share are gathered, too, in {sharers}")
    gatherers = ", ".join(name for name in strategies if is_sharded(name, "weight"))
    if config["keep_views"] != "none" and gatherers:
        notes.append(f"views that stay from forward to backward: fewer gathers than claimed in {gatherers}")
    return notes


def _rounds(strategy: str, config: Json) -> int:
    """The micro-batches of the strategy's closed form, or runs of them."""
    shape = {name: config[name] for name in ("micro_batches", "schedule", "pipeline", "chunks")}
    return num_rounds(RunConfig(strategy=strategy, **shape))


def _passes(strategy: str, rounds: int) -> int:
    """How often Ψ passes through a ring in an iteration with no view kept: the claim, for one micro-batch.

    >>> [_passes(strategy, 4) for strategy in CLAIMED]
    [2, 2, 5, 12, 5]
    """
    one_dtype = find_precision("fp32")
    return sum(use.passes for use in CLAIMED[strategy].uses(rounds, "none", one_dtype))
