"""What ranks print, brought to the launcher around mpiexec, byte for byte and at once."""

import contextlib
import os
import select
from collections.abc import Iterator, Mapping

from collectives.launching.rank_notes import STREAMS


class OutputLostError(OSError):
    """What is printed cannot be written any more: the disk is full, or nobody reads it."""


@contextlib.contextmanager
def ranks_output(directory: str) -> Iterator[dict[int, int]]:
    """The reading ends of the pipes into which the ranks write, each with the descriptor that it goes to."""
    pipes = {}
    try:
        for name, descriptor in STREAMS.items():
            path = os.path.join(directory, name)
            os.mkfifo(path)
            # Opened for both, so that it neither waits for the first writer nor ends with the last.
            pipes[os.open(path, os.O_RDWR | os.O_NONBLOCK)] = descriptor
        yield pipes
    finally:
        for pipe in pipes:
            os.close(pipe)


def pass_on(pipes: Mapping[int, int], seconds: float) -> bool:
    """Whether something came from the ranks within ``seconds``; it is then written where it belongs.

    OutputLostError if stdout takes no more. A stderr that takes no more costs only what it was to take.
    """
    ready = select.select(list(pipes), [], [], seconds)[0]
    for pipe in ready:
        data = os.read(pipe, 65536)
        while data:
            try:
                data = data[os.write(pipes[pipe], data) :]
            except OSError as error:
                if pipes[pipe] == STREAMS["stderr"]:
                    break
                raise OutputLostError(error.errno, error.strerror) from error
    return bool(ready)
