"""The options that name a frozen model, read: what the run is told of it, and the model itself."""

from dataclasses import replace
from pathlib import Path

from zero_emulator.config import RunConfig
from zero_emulator.data import Dataset
from zero_emulator.frozen_reference import FrozenReference, widths_of
from zero_emulator.weight_files import Model, load_weights


def with_reference(
    config: RunConfig, dataset: Dataset, file: Path | None, kl: float | None, on: str
) -> tuple[RunConfig, Model | None]:
    """The run, told of its reference, and that; ValueError for options that do not go together, or a file.

    The model is cast to the dtype that the run computes in.
    """
    if file is None:
        if kl is not None:
            raise ValueError(f"--kl {kl:g} without --reference: name a file that train --save has written")
        if on != FrozenReference.on:
            raise ValueError(f"--reference-on {on} without --reference: name a file, or drop it")
        return config, None
    if kl is None:
        raise ValueError(f"--reference {file} without --kl: say how near it holds, as --kl 0.1")
    model = load_weights(file, dataset.train_x.shape[1], dataset.num_classes, config.policy.compute)
    widths = widths_of(model)
    assert widths is not None, "there is a model"
    return replace(config, reference=FrozenReference(str(file), widths, kl, on)), model
