"""What every check raises."""

from operator import methodcaller


class CheckError(AssertionError):
    """A check has failed: its name, and what is wrong."""

    def __str__(self) -> str:
        return ": ".join(map(str, self.args))


HIDES = methodcaller("errisinstance", CheckError)
"""As ``__tracebackhide__`` of pytest: what is wrong is in the user's schedule, not in these lines."""
