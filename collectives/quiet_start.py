"""Ctrl-C while a command still imports what it needs: nothing has begun, so it just ends."""

import os
import signal
from types import FrameType

# Imported before everything else: nothing here that takes time.


def end_quietly_on_ctrl_c() -> None:
    """From here on Ctrl-C ends this process with code 130, as shells report it, and without a traceback."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:  # who ignores it goes on doing so
        signal.signal(signal.SIGINT, _end)


def raise_on_ctrl_c() -> None:
    """From here on Ctrl-C is a KeyboardInterrupt again, as there may be something to tidy up."""
    if signal.getsignal(signal.SIGINT) == _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(signal_number: int, frame: FrameType | None) -> None:
    os._exit(128 + signal_number)
