"""What the page may ask for: a few settings of `promask learn`, and the command line that means the same.

The page: one HTML document with its style, its scripts and what they must know.
"""

import html
import json
import secrets
import shlex
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from promask.data.readers.nifti import split_name
from promask.data.sources import BUILT_IN
from promask.errors import InputError
from promask.export import FORMATS
from promask.learning.config import Config
from promask.recon import RECONSTRUCTIONS, make_reconstruction
from promask.report.page import palette
from promask.sampling.pattern import Pattern
from promask.studio.guard import RefusedError
from promask.studio.uploads import ENDINGS, MEGABYTE, MOST_FILES

PATTERNS = ("2d", "1d")
LOSSES = ("mse", "l1", "ssim")
MOST_COILS = 64


class Wish(BaseModel):
    """The body of a request to learn. There is no setting that names a file: data are a built-in set or an upload.

    >>> wish = Wish(data="brain", acceleration=8, pattern="1d", axis=0)
    >>> wish.command(wish.data)
    'promask learn brain --accel 8 --pattern 1d --axis 0 --out runs/brain-x8'
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    data: str | None = None
    upload: str | None = None
    acceleration: float = Field(allow_inf_nan=False)
    pattern: str = "2d"
    axis: int | None = None
    loss: str = "mse"
    recon: str = "zero-filled"
    steps: int | None = None
    seed: int | None = None
    centre: int | None = None
    coils: int | None = None
    skip_bad: bool = False

    def check(self) -> Config:
        """Refuse what the command line would refuse, before any data are read."""
        if (self.data is None) == (self.upload is None):
            raise RefusedError(400, "Choose either a built-in data set or files of your own.")
        if self.data is not None and self.data not in BUILT_IN:
            raise RefusedError(
                400,
                f"{self.data!r} is not a built-in data set ({', '.join(BUILT_IN)}), and the studio opens no other "
                f"files of its machine: upload them, or use promask learn.",
            )
        for name, value, known in (
            ("pattern", self.pattern, PATTERNS),
            ("loss", self.loss, LOSSES),
            ("recon", self.recon, tuple(RECONSTRUCTIONS)),
        ):
            if value not in known:
                raise RefusedError(400, f"{name} must be {' or '.join(known)}, but is {value!r}.")
        if self.axis is not None and (self.pattern != "1d" or self.axis not in (0, 1)):
            raise RefusedError(400, "The axis must be 0 or 1, and goes with lines: the pattern 1d.")
        if self.coils is not None and self.coils > MOST_COILS:
            raise RefusedError(400, f"coils must be at most {MOST_COILS}, but is {self.coils}.")
        make_reconstruction(self.recon)
        try:
            return Config.preset("default", **self.settings())
        except InputError as error:
            raise RefusedError(400, str(error)) from error

    def settings(self) -> dict[str, Any]:
        """Those that were chosen, as `learn_and_report` takes them."""
        usual = Wish.model_fields
        chosen = {
            name: value
            for name, value in self.model_dump(exclude={"data", "upload"}).items()
            if value is not None and value != usual[name].default
        }
        return {**chosen, "axis": (self.axis,)} if self.axis is not None else chosen

    def command(self, data: str) -> str:
        """The same on the command line."""
        words = ["promask", "learn", data]
        for name, value in self.settings().items():
            if name == "acceleration":
                words += ["--accel", f"{value:.17g}"]
            elif value is True:
                words += [f"--{name.replace('_', '-')}"]
            else:
                words += [f"--{name}", str(value[0] if isinstance(value, tuple) else value)]
        stem = stem_of(data)
        return shlex.join([*words, "--out", f"runs/{stem}-x{self.acceleration:g}"])

    def budget(self, description: Mapping[str, Any] | None) -> dict[str, int] | None:
        """How many units will be acquired, of how many; None as long as nothing is known of the data."""
        if description is None:
            return None
        axis = None if self.axis is None else (self.axis,)
        extent = tuple((start, end) for start, end in description["extent"])
        pattern = Pattern.named(self.pattern, description["shape"], axis, extent)
        budget = pattern.budget(self.acceleration)
        pattern.block(self.centre or 0, budget)
        return {"acquired": budget, "units": pattern.units}


def stem_of(data: str) -> str:
    """The name of a data set without the ending of a file.

    >>> stem_of("scan.nii.gz")
    'scan'
    """
    return split_name(Path(data))[0]


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
    from promask import __version__

    return __version__
