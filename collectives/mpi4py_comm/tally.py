"""What has been called on wrapped communicators."""

from collections import Counter
from dataclasses import dataclass, field

from collectives.ledger import Ledger


@dataclass
class Tally:
    """The ledger of what was sent, and how often each method was called."""

    ledger: Ledger = field(default_factory=Ledger)
    counted: Counter[str] = field(default_factory=Counter)
    not_counted: Counter[str] = field(default_factory=Counter)
