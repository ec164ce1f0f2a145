"""The table of optimizers: a newcomer adds a file with a rule, one line here, and its record in theory."""

from collections.abc import Callable
from inspect import signature

from zero_emulator.optimizers.adam import Adam, AdamW
from zero_emulator.optimizers.base import Optimizer, Rule, RuleAt
from zero_emulator.optimizers.muon import Muon, MuonMatrix
from zero_emulator.optimizers.sgd import SGD

__all__ = [
    "OPTIMIZERS",
    "SGD",
    "Adam",
    "AdamW",
    "Muon",
    "MuonMatrix",
    "Optimizer",
    "Rule",
    "RuleAt",
    "make_optimizer",
]

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW, "muon": Muon}


def make_optimizer(
    name: str, *, lr: float | None = None, momentum: float | None = None, weight_decay: float | None = None
) -> Optimizer:
    """The optimizer of this name; an option that is None keeps the optimizer's own default.

    ValueError for an unknown name, or an option that this optimizer does not have.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {name!r}: take one of {', '.join(OPTIMIZERS)}")
    kind = OPTIMIZERS[name]
    given = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
    options = {option: value for option, value in given.items() if value is not None}
    known = signature(kind).parameters
    for option, value in options.items():
        if option not in known:
            raise ValueError(f"{name} has no {option}, given as {value}: it takes {', '.join(known)}")
    return kind(**options)
