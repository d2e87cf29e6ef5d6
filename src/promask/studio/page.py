"""The page: one HTML document with its style, its scripts and what they must know."""

import html
import json
import secrets
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from promask.data import BUILT_IN
from promask.export import FORMATS
from promask.recon import RECONSTRUCTIONS
from promask.report.pixels import palette
from promask.studio.settings import LOSSES, MOST_COILS
from promask.studio.uploads import ENDINGS, MEGABYTE, MOST_FILES

SCRIPTS = ("calls.js", "theme.js", "canvas.js", "curve.js", "data.js", "settings.js", "job.js")
"""In the order in which they run; they share their names."""


def page(limit: int) -> tuple[str, str]:
    """The document, and the word that tells its own scripts and styles from any others."""
    nonce = secrets.token_urlsafe(16)
    known = json.dumps({**_known(), "limit": limit, "megabytes": limit / MEGABYTE}).replace("<", "\\u003c")
    scripts = "".join(f'<script nonce="{nonce}">\n{_read(name)}</script>\n' for name in SCRIPTS)
    text = Template(_read("page.html")).substitute(
        nonce=nonce,
        style=_read("style.css"),
        known=known,
        scripts=scripts,
        sets=_options(BUILT_IN),
        recons=_options(RECONSTRUCTIONS),
        losses=_options(LOSSES),
        formats=_options(FORMATS),
        endings=",".join(ENDINGS),
        coils=MOST_COILS,
        version=_version(),
    )
    return text, nonce


@cache
def _read(name: str) -> str:
    return (files("promask.studio") / "page" / name).read_text(encoding="utf-8")


@cache
def _known() -> dict[str, Any]:
    return {"viridis": palette("viridis").tolist(), "endings": ENDINGS, "mostFiles": MOST_FILES}


def _options(names: Any) -> str:
    return "".join(f'<option value="{html.escape(name)}">{html.escape(name)}</option>' for name in names)


def _version() -> str:
    from promask.version import __version__

    return __version__
