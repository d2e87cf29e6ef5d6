"""Docstrings are prose with `code`, examples, and sections such as `Args:`: nothing else in them is mark-up.

conf.py lists napoleon, which reads the sections, after this extension.
"""

import re
from typing import Any

from sphinx.application import Sphinx

EXAMPLE = re.compile(r"(^ *>>> (?:.+\n?)+)", flags=re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
MARKUP = re.compile(r"([\\*|_])")


def as_restructured_text(text: str) -> str:
    r"""What Sphinx takes for the same text.

    >>> as_restructured_text("`theta` of (batch, *space)")
    '``theta`` of (batch, \\*space)'
    """
    parts = EXAMPLE.split(text)
    parts[::2] = [_prose(part) for part in parts[::2]]
    return "".join(parts)


def _prose(text: str) -> str:
    parts = CODE.split(text)
    parts[::2] = [MARKUP.sub(r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"``{' '.join(part.split())}``" for part in parts[1::2]]
    return "".join(parts)


def rewrite(app: Sphinx, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """The lines of a docstring, in place."""
    lines[:] = as_restructured_text("\n".join(lines)).split("\n")


def rewrite_signature(
    app: Sphinx, kind: str, name: str, thing: Any, options: Any, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """A default that a dataclass makes anew is not Python: without it the signature can be read, and has links."""
    return signature and signature.replace("<factory>", "..."), result


def setup(app: Sphinx) -> dict[str, Any]:
    """Whenever a docstring or a signature is read."""
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", rewrite_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
