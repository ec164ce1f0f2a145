"""What a benchmark leaves in files: JSON, CSV, a picture, a table of choices; each whole or not there."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from collectives.bench.figures import Figures
from collectives.bench.plot import plot
from collectives.bench.tune import best_choices
from collectives.choices_file import choices_text
from collectives.files import write_whole

SCHEMA = "collectives-bench/1"


@dataclass(frozen=True)
class BenchFiles:
    """Where each kind is to be written, or None."""

    json: Path | None = None
    csv: Path | None = None
    plot: Path | None = None
    tune: Path | None = None

    def write(self, document: dict[str, Any], figures: Sequence[Figures]) -> Iterator[str]:
        """Write them all; a line for each file that could not be written."""
        copies, world_size = document["copy_limit"]["bytes_a_second"], document["world_size"]
        kinds: tuple[tuple[Path | None, Callable[[Path], str | bytes]], ...] = (
            (self.json, lambda _: json.dumps(document, indent=1, allow_nan=False) + "\n"),
            (self.csv, lambda _: csv_text(figures)),
            (self.plot, lambda path: plot(figures, copies, path.suffix)),
            (self.tune, lambda _: choices_text(best_choices(figures, world_size))),
        )
        for path, content in kinds:
            try:
                if path is not None:
                    write_whole(path, [content(path)])
            except OSError as error:
                yield f"{path} could not be written ({error.strerror}): name another place"


def csv_text(figures: Sequence[Figures]) -> str:
    """One row for each line of figures, under the names of the fields; empty where there is no figure."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Figures)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(one.as_json() for one in figures)
    return text.getvalue()
