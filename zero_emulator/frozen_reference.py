"""What a run is told of the frozen model that it is held near."""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from zero_emulator.weight_files import Model

PLACES = ("host", "device")


@dataclass(frozen=True)
class FrozenReference:
    """Which model, how strongly, and where its weights are; not the weights, which are in a Model beside."""

    file: str
    widths: tuple[int, ...]
    """The inputs of its first layer, then the outputs of all."""
    kl: float
    """By which the divergence is multiplied."""
    on: str = "host"

    def __post_init__(self) -> None:
        if not (self.kl > 0 and isfinite(self.kl)):
            raise ValueError(f"--kl {self.kl:g}: give a number above 0")
        if self.on not in PLACES:
            raise ValueError(f"--reference-on {self.on}: take one of {', '.join(PLACES)}")

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"widths": list(self.widths)}


def widths_of(model: Model | None) -> tuple[int, ...] | None:
    """The inputs of the first layer and the outputs of all; None where there is no model."""
    if model is None:
        return None
    return (model.layers[0].inputs, *(layer.outputs for layer in model.layers))
