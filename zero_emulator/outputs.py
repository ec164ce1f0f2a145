"""What a run leaves behind: its files, its words, and a line for each file that could not be written."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from collectives.files import write_whole
from collectives.ledger import LedgerError
from collectives.printing import print_out
from collectives.ranks import is_terminal
from zero_emulator.record import Json


@dataclass(frozen=True)
class Outputs:
    """Which files to write, and whether to print everything, the verdict alone, or JSON."""

    record: Path | None = None
    events: Path | None = None
    save: Path | None = None
    quiet: bool = False
    json: bool = False

    def publish(
        self,
        document: Json,
        describe: Callable[[Json], str],
        events: Iterable[str],
        weights: Iterable[bytes],
    ) -> bool:
        """Write and print; whether all files were written. A disk that is full does not cost the verdict."""
        unwritten = list(self._write(document, events, weights))
        self._print(document, describe)
        for line in unwritten:
            click.echo(f"zero-emulator: {line}", err=True)
        return not unwritten

    def _write(self, document: Json, events: Iterable[str], weights: Iterable[bytes]) -> Iterator[str]:
        """A line for each file that could not be written."""
        files: tuple[tuple[Path | None, Iterable[str | bytes]], ...] = (
            (self.record, _indented(document)),
            (self.events, events),
            (self.save, weights),
        )
        for path, lines in files:
            try:
                if path is not None:
                    write_whole(path, lines)
            except OSError as error:
                yield f"{path} could not be written ({error.strerror}): name another place"
            except LedgerError as error:
                yield f"{path} was not written, its messages do not pair: {error}"

    def _print(self, document: Json, describe: Callable[[Json], str]) -> None:
        if self.json:
            print_out(json.dumps(document, allow_nan=False))
        else:
            shown = f"verdict {document['verdict']}" if self.quiet else describe(document)
            print_out(_painted(shown))


def _indented(document: Json) -> Iterator[str]:
    yield json.dumps(document, indent=1, allow_nan=False)
    yield "\n"


def _painted(text: str) -> str:
    """Verdicts in colour, for a terminal and whoever has not set NO_COLOR: an empty one counts as none."""
    if not is_terminal("stdout") or os.environ.get("NO_COLOR"):
        return text
    colours = {"pass": "green", "fail": "red"}
    return re.sub(r"\b(pass|fail)$", lambda word: click.style(word[0], colours[word[0]]), text, flags=re.M)
