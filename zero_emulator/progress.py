"""How far a long run is: a line that renews itself on a terminal, a plain line now and then elsewhere."""

import sys
import time

SECONDS_ON_TERMINAL = 0.1
SECONDS_ELSEWHERE = 5.0


class Progress:
    """Writes to stderr, for the one rank that speaks; of a short run it says nothing."""

    def __init__(self, what: str, iterations: int, *, terminal: bool) -> None:
        self._what, self._iterations, self._terminal = what, iterations, terminal
        self._seconds = SECONDS_ON_TERMINAL if terminal else SECONDS_ELSEWHERE
        self._due = time.monotonic() + self._seconds

    def __call__(self, iteration: int) -> None:
        if iteration == self._iterations:
            self._write("\r\033[K" if self._terminal else "")
        elif time.monotonic() >= self._due:
            self._due = time.monotonic() + self._seconds
            line = f"{self._what}: iteration {iteration} of {self._iterations}"
            self._write(f"\r{line}\033[K" if self._terminal else f"{line}\n")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
