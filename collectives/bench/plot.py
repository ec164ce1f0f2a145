"""Bus bandwidth over size as a picture: a panel for each collective, a line for each algorithm."""

import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path

from collectives.bench.figures import Figures
from collectives.bench.subjects import APART, TOGETHER

SUFFIXES = (".svg", ".png")


def check_plot(path: Path) -> None:
    """ValueError, before anything is measured, if no picture can be made or not of this kind."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"--plot {path}: a picture is .svg or .png, name it so")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError(
            "--plot needs matplotlib, which is not here: pip install matplotlib, or leave it out"
        )


def plot(figures: Sequence[Figures], copies_a_second: float, suffix: str) -> bytes:
    """The picture, as the bytes of a file with this suffix."""
    from matplotlib.figure import Figure  # a second that only who asks for a picture waits

    collectives = list(dict.fromkeys(one.collective for one in figures))
    colours = {
        name: f"C{number}" for number, name in enumerate(dict.fromkeys(one.algorithm for one in figures))
    }
    picture = Figure(figsize=(6 * len(collectives), 4), layout="constrained")
    panels = picture.subplots(1, len(collectives), squeeze=False, sharey=True)[0]
    for panel, collective in zip(panels, collectives, strict=True):
        for name, colour in colours.items():
            for placement, style in ((APART, "-"), (TOGETHER, ":")):
                wanted = collective, placement, name
                line = [one for one in figures if (one.collective, one.placement, one.algorithm) == wanted]
                sizes, speeds = [one.num_bytes for one in line], [one.bus_bandwidth / 1e9 for one in line]
                if line:
                    label = f"{name}, {placement}"
                    panel.plot(sizes, speeds, style, color=colour, marker=".", label=label)
        panel.axhline(copies_a_second / 1e9, color="grey", linestyle="--", label="copying alone")
        panel.set(title=collective, xlabel="bytes", ylabel="bus bandwidth, GB/s", ylim=0)
        panel.set_xscale("log", base=2)
        panel.legend()
    file = io.BytesIO()
    picture.savefig(
        file, format=suffix.removeprefix("."), metadata={"Date": None} if suffix == ".svg" else None
    )
    return file.getvalue()
