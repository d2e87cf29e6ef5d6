"""What the page may ask for, a few settings of `promask learn`, and how it is refused."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from promask.data.readers.nifti import split_name
from promask.data.sources import BUILT_IN
from promask.errors import InputError
from promask.learning.config import Config
from promask.recon import RECONSTRUCTIONS, make_reconstruction
from promask.sampling.pattern import Pattern

PATTERNS = ("2d", "1d")
LOSSES = ("mse", "l1", "ssim")
MOST_COILS = 64


class RefusedError(InputError):
    """One sentence for the page, and the HTTP status that goes with it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class LearnRequest(BaseModel):
    """A request to learn. No setting names a file of the machine: data are a built-in set or an upload.

    >>> request = LearnRequest(data="brain", acceleration=8, pattern="1d", axis=0)
    >>> request.command(request.data)
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
        for name, names in {"pattern": PATTERNS, "loss": LOSSES, "recon": tuple(RECONSTRUCTIONS)}.items():
            if (value := getattr(self, name)) not in names:
                raise RefusedError(400, f"{name} must be {' or '.join(names)}, but is {value!r}.")
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
        """The settings that were chosen, as `learn_and_report` takes them."""
        chosen = self.model_dump(exclude={"data", "upload"}, exclude_defaults=True)
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
        name = split_name(Path(data))[0]
        return shlex.join([*words, "--out", f"runs/{name}-x{self.acceleration:g}"])

    def count_samples(self, description: Mapping[str, Any] | None) -> dict[str, int] | None:
        """How many samples or lines will be acquired, of how many; None while nothing is known of the data."""
        if description is None:
            return None
        axis = None if self.axis is None else (self.axis,)
        extent = tuple((start, end) for start, end in description["extent"])
        pattern = Pattern.named(self.pattern, description["shape"], axis, extent)
        budget = pattern.budget(self.acceleration)
        pattern.block(self.centre or 0, budget)
        return {"acquired": budget, "units": pattern.units}
