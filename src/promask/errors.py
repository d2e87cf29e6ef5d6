"""The one kind of error that a user can cause and mend, and what a user should know without being stopped."""

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple


class InputError(ValueError):
    """Bad input: one sentence that says what was wrong, where, and what to do.

    The command line prints it without a traceback and exits with status 2.
    """


class Choice(NamedTuple):
    """A value for an argument that would settle what is not certain, and what it means."""

    argument: str
    value: str
    words: str


class UncertainDataError(InputError):
    """Data that can be read in several ways: the sentence lists them, and `choices` has them for programs."""

    def __init__(self, sentence: str, choices: Sequence[Choice]) -> None:
        super().__init__(sentence)
        self.choices = choices


class LostProcessError(RuntimeError):
    """Another process, which this one cannot do without, has ended; it has said why, if it could."""


def one_line(words: object, most: int = 200) -> str:
    """What a library or a file says, fit for a sentence: without line breaks and other control characters.

    >>> one_line("bad" + chr(10) + "news.")
    'bad news'
    """
    text = "".join(letter if letter.isprintable() else " " for letter in str(words))
    text = " ".join(text.split()).rstrip(". ")
    return text if len(text) <= most else f"{text[: most - 3]}..."


class InputWarning(UserWarning):
    """Something about the data that was decided for the user, or left out: one sentence."""


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "image"), count(3, "image")
    ('1 image', '3 images')
    >>> count(3, "series")
    '3 series'
    """
    return f"{number} {noun}" if number == 1 or noun.endswith("series") else f"{number} {noun}s"


def check_keywords(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse keyword arguments that do not exist, with a suggestion.

    >>> check_keywords(["convntion"], ["convention", "part"])
    Traceback (most recent call last):
    promask.errors.InputError: Unknown argument `convntion`: did you mean `convention`?
    """
    known = [name for name in known if name not in ("return", "reading")]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"choose from {', '.join(sorted(known))}."
            raise InputError(f"Unknown argument `{name}`: {hint}")
