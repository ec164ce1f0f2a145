"""What every check raises."""


class CheckError(AssertionError):
    """A check has failed: its name, and what is wrong."""

    def __str__(self) -> str:
        return ": ".join(map(str, self.args))
