"""The one kind of error that a user can cause and mend, and what a user should know without being stopped."""


class InputError(ValueError):
    """Bad input: one sentence that says what was wrong, where, and what to do.

    The command line prints it without a traceback and exits with status 2.
    """


class LostProcessError(RuntimeError):
    """Another process, which this one cannot do without, has ended; it has said why, if it could."""


class InputWarning(UserWarning):
    """Something about the data that was decided for the user, or left out: one sentence."""
