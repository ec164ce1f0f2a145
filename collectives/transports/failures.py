"""How those who run ranks without MPI tell which of them has failed."""

import sys
import traceback
from collections.abc import Callable

from collectives.user_error import UserError

OnFailure = Callable[[str, BaseException], object]
"""Called once, with a line that names the first rank that failed, and with what it raised."""


class RankDiedError(UserError, RuntimeError):
    """A rank was killed, has left, or does not end; the message names it."""


class RankTraceback(Exception):  # noqa: N818 - it is the cause of an error, and none itself
    """Where a rank raised, as text, for its exception forgets it on the way here: the cause of that."""


def tell_nobody(line: str, error: BaseException) -> None:
    """The OnFailure of those who are content with the exception."""


def describe_failure(rank: int, error: BaseException) -> str:
    """``rank 1 raised ValueError: what it says``, in one line."""
    message = " ".join(str(error).split())
    return f"rank {rank} raised {type(error).__name__}" + (f": {message}" if message else "")


def trace_of(error: BaseException) -> str:
    """The traceback that led to it, on whichever rank that was."""
    cause = error.__cause__
    return str(cause) if isinstance(cause, RankTraceback) else "".join(traceback.format_exception(error))


def note_rank(error: BaseException, rank: int, world_size: int) -> BaseException:
    """``error``, with its rank in a note (from Python 3.11, which has notes)."""
    if sys.version_info >= (3, 11):
        error.add_note(f"on rank {rank} of {world_size}")
    return error
