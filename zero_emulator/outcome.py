"""What a run leaves on every rank: the reports of all, and the trained weights."""

from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

from collectives.ledger import Entry
from zero_emulator.config import RunConfig
from zero_emulator.experts import Routing
from zero_emulator.layout import Array
from zero_emulator.meter import Peak
from zero_emulator.near_reference import Crossed
from zero_emulator.theory import LinkBytes
from zero_emulator.traffic import RunTraffic

Routings = dict[tuple[int, int], Routing]
"""By the number of the router among the layers, and the micro-batch."""


class ReferenceUse(NamedTuple):
    """What a rank has to say of its frozen model."""

    most_bytes: int
    """Of its weights on the device at once."""
    crossed: list[Crossed]
    """To the device, an iteration each; nothing on a rank that has no frozen model."""


class Stall(NamedTuple):
    """All copies of one thing in a run, and the seconds that a rank would have waited for them: modelled."""

    copy: str
    times: int
    num_bytes: int
    modelled_seconds: float


@dataclass
class RankReport:
    """What one rank has to say of a run."""

    loss_shares: list[float]
    traffic: RunTraffic
    exchanges: int  # values that went past the ledger
    persistent: dict[str, int]  # bytes by kind
    peak: Peak
    gradient_bytes: int  # the most at once, of what has added up
    link: list[LinkBytes]  # an iteration each
    stalls: list[Stall]  # modelled, of copies over a link whose bandwidth is given
    contradictions: list[str]
    leaks: list[str]  # what an iteration has left behind of what passes
    skipped: list[int]  # iterations whose update was voted down
    routings: dict[int, Routings]  # by iteration
    entries: list[Entry]
    host: str
    reference: ReferenceUse


@dataclass
class Outcome:
    """A run as every rank knows it at its end: the reports of all ranks, and the trained weights."""

    config: RunConfig
    reports: list[RankReport]
    digests: dict[int, list[str]]
    weights: list[Array]
    gradients: list[Array] | None  # of the first update, where they were audited
    test_accuracy: float
    seconds: float

    @property
    def losses(self) -> list[float]:
        """The mean loss over the global batch, iteration by iteration: the ranks' shares, in rank order."""
        return [sum(shares) for shares in zip(*(report.loss_shares for report in self.reports), strict=True)]

    def routings(self, iteration: int) -> Routings:
        """Who was routed to which expert in an iteration, by all routers of the model: as ranks report it."""
        return {key: found for report in self.reports for key, found in report.routings[iteration].items()}

    @property
    def first_bad_loss(self) -> int | None:
        """The first iteration whose loss is not finite."""
        return next((i for i, loss in enumerate(self.losses, start=1) if not isfinite(loss)), None)
