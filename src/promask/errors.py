"""The one kind of error that a user can cause and mend."""


class InputError(ValueError):
    """Bad input: one sentence that says what was wrong, where, and what to do.

    The command line prints it without a traceback and exits with status 2.
    """
