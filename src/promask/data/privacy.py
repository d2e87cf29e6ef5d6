"""What headers tell of patients stays in the file."""

import hashlib
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

TALKATIVE = ("pydicom", "nibabel")
"""Packages whose loggers quote what they find in a header."""
_one_at_a_time = threading.RLock()
"""Warnings and loggers are those of the whole process."""


def private_name(patient: str) -> str:
    """The same name for the same patient, to keep a patient's images together: it says who is who, not who.

    Names and numbers of patients can be guessed from it by trying them all, so it is not written anywhere either;
    what is written numbers the subjects.
    """
    return f"patient-{hashlib.sha256(patient.encode(errors='replace')).hexdigest()[:12]}"


@contextmanager
def unquoted() -> Iterator[None]:
    """Other packages read a header: their warnings and logs, which may quote what they find, are not shown."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = list(logging.root.manager.loggerDict.items())
        loggers = [
            logger
            for name, logger in known
            if name.partition(".")[0] in TALKATIVE and isinstance(logger, logging.Logger) and not logger.disabled
        ]
        for logger in loggers:
            logger.disabled = True
        try:
            yield
        finally:
            for logger in loggers:
                logger.disabled = False
