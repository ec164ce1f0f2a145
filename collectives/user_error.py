"""Errors that are no bugs: what the user should know is in the message, and where it was raised is not."""


class UserError(Exception):
    """Ends a rank with its message alone, without a traceback. To be mixed into an error of another kind."""
