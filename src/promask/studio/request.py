"""What the page may ask for, a few settings of `promask learn`, the files it uploads, and how it is refused."""

import errno
import re
import secrets
import shlex
import shutil
import threading
import time
from collections.abc import AsyncIterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from promask.data.axes import DIRECTIONS, FRAME
from promask.data.readers.nifti import split_name
from promask.data.reading import Reading
from promask.data.sources import BUILT_IN, READERS, check_frames
from promask.errors import InputError
from promask.export.formats import BY_SUFFIX
from promask.learning.config import MOTION, Config
from promask.learning.setup import acceleration_of
from promask.recon import RECONSTRUCTIONS, make_reconstruction
from promask.recon.base import check_trajectory
from promask.sampling.limits import BLOCK, LimitSettings
from promask.sampling.pattern import Pattern
from promask.types import Geometry

PATTERNS = ("2d", "1d", "kt", "kt-2d", "radial", "spiral", "kt-radial", "kt-spiral")
LINES = ("1d", "kt")
"""Patterns of one direction, which may be chosen."""
LOSSES = ("mse", "l1", "ssim", MOTION)
MOST_COILS = 64
LONGEST_AXES, LONGEST_ARRAY = 200, 500
"""Letters of roles of axes, and of the name of an array."""
OWN_MASK = "yours"
"""What the report calls the mask of a user's own."""


class RefusedError(InputError):
    """One sentence for the page, and the HTTP status that goes with it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class ReadingRequest(BaseModel):
    """How uploaded files are read: some settings of `Reading`, which checks them."""

    array: str | None = Field(None, max_length=LONGEST_ARRAY)
    axes: str | None = Field(None, max_length=LONGEST_AXES)
    readout: str | None = None
    each_frame: bool = False
    skip_bad: bool = False

    def reading(self) -> Reading:
        """These settings as the library takes them."""
        return Reading(**{name: getattr(self, name) for name in ReadingRequest.model_fields})


class LearnRequest(ReadingRequest):
    """A request to learn. No setting names a file of the machine: data are a built-in set or an upload, and so is
    a mask to compare with.

    >>> request = LearnRequest(upload="id", acceleration=8, axes="slice ky kx", each_frame=True)
    >>> request.command("raw.npy")
    "promask learn raw.npy --axes 'slice ky kx' --each-frame --accel 8 --out runs/raw-x8"
    >>> request = LearnRequest(data="cine", acceleration=6, pattern="kt", recon="kt-sense", coils=8, period=5)
    >>> request.command("cine")
    'promask learn cine --accel 6 --pattern kt --recon kt-sense --period 5 --coils 8 --out runs/cine-x6'
    >>> LearnRequest(data="knee", spokes=16, pattern="radial", recon="gridding").command("knee")
    'promask learn knee --spokes 16 --pattern radial --recon gridding --out runs/knee-16-spokes'
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    data: str | None = None
    upload: str | None = None
    mask: str | None = None
    acceleration: float | None = Field(None, allow_inf_nan=False)
    spokes: int | None = None
    pattern: str | None = None
    axis: int | str | None = None
    loss: str | None = None
    recon: str = "zero-filled"
    steps: int | None = None
    seed: int | None = None
    centre: int | None = None
    shutter: str | None = None
    acs_shape: str = BLOCK
    equal_per: str | None = None
    period: int | None = None
    coils: int | None = None
    noise: float | None = Field(None, allow_inf_nan=False)

    def check(self) -> None:
        """Refuse what the command line would refuse, before any data are read."""
        if (self.data is None) == (self.upload is None):
            raise RefusedError(400, "Choose either a built-in data set or files of your own.")
        if self.data is not None and self.data not in BUILT_IN:
            raise RefusedError(
                400,
                f"{self.data!r} is not a built-in data set ({', '.join(BUILT_IN)}), and the studio opens no other "
                f"files of its machine: upload them, or use promask learn.",
            )
        for name, names in {
            "pattern": (None, *PATTERNS),
            "loss": (None, *LOSSES),
            "recon": tuple(RECONSTRUCTIONS),
        }.items():
            if (value := getattr(self, name)) not in names:
                raise RefusedError(400, f"{name} must be {' or '.join(filter(None, names))}, but is {value!r}.")
        if (self.acceleration is None) == (self.spokes is None):
            raise RefusedError(400, "Give either the acceleration or the number of spokes.")
        if self.axis is not None and (self.pattern not in LINES or self.axis not in (0, 1, *DIRECTIONS)):
            raise RefusedError(
                400,
                "The axis must be 0 or 1, or a direction such as ky, and goes with lines: the pattern 1d or kt.",
            )
        if self.coils is not None and self.coils > MOST_COILS:
            raise RefusedError(400, f"coils must be at most {MOST_COILS}, but is {self.coils}.")
        make_reconstruction(self.recon)
        try:
            Config.preset("default", **self.settings())
        except InputError as error:
            raise RefusedError(400, str(error)) from error

    def settings(self) -> dict[str, Any]:
        """The settings that were chosen, as `learn_and_report` takes them."""
        chosen = self.model_dump(exclude={"data", "upload", "mask"}, exclude_defaults=True)
        return {**chosen, "axis": (self.axis,)} if self.axis is not None else chosen

    def command(self, data: str, mask: Path | None = None) -> str:
        """The same on the command line; the mask to compare with is for the report."""
        words = ["promask", "learn", data]
        for name, value in self.settings().items():
            if name == "acceleration":
                words += ["--accel", f"{value:.17g}"]
            elif value is True:
                words += [f"--{name.replace('_', '-')}"]
            else:
                words += [f"--{name.replace('_', '-')}", str(value[0] if isinstance(value, tuple) else value)]
        many = f"{self.spokes}-spokes" if self.acceleration is None else f"x{self.acceleration:g}"
        out = f"runs/{split_name(Path(data))[0]}-{many}"
        command = shlex.join([*words, "--out", out])
        if mask is None:
            return command
        return f"{command} && {shlex.join(['promask', 'report', out, '--beside', f'{OWN_MASK}={mask.name}'])}"

    def pattern_on(self, description: Mapping[str, Any] | None) -> Pattern | None:
        """The pattern on the data that were described; None while it is not certain what they are.

        What learning would refuse is refused here.
        """
        if description is None or description["question"] is not None:
            return None
        geometry, recon = geometry_of(description), make_reconstruction(self.recon)
        check_frames(recon, geometry, description["name"])
        if self.loss == MOTION and not geometry.indexes:
            raise RefusedError(
                400, f"The loss {MOTION} is for series of frames, but {description['name']} has none."
            )
        axis = None if self.axis is None else (self.axis,)
        pattern = Pattern.on(shape_of(description), geometry, self.pattern, axis)
        pattern = LimitSettings(
            shutter=self.shutter,
            acs_shape=self.acs_shape,
            equal_per=self.equal_per,
            period=self.period or 0,
        ).on(pattern)
        if pattern.trajectory is not None:
            check_trajectory(recon, pattern.trajectory)
        pattern.block(self.centre or 0, self._budget(pattern))
        return pattern

    def _budget(self, pattern: Pattern) -> int:
        """How many samples, lines or spokes are acquired."""
        asked = acceleration_of(self.spokes or 0, pattern) if self.acceleration is None else self.acceleration
        return pattern.budget(asked)

    def count_samples(self, description: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """How many samples or lines will be acquired, of how many; None while that is not certain.

        Where frames have a pattern of their own, it is also said how many `frames` it has, and of spokes, how many
        a `complete` scan has.
        """
        pattern = self.pattern_on(description)
        if pattern is None:
            return None
        frames = {"frames": pattern.unit_shape[0]} if pattern.varies else {}
        complete = {} if pattern.trajectory is None else {"complete": pattern.trajectory.full}
        return {"acquired": self._budget(pattern), "units": pattern.units, **frames, **complete}


def geometry_of(description: Mapping[str, Any]) -> Geometry:
    """What a description tells of the axes of k-space; of series, the first one is that of frames."""
    axes, readout = tuple(description["directions"]), description["readout"]
    extent = tuple((start, end) for start, end in description["extent"])
    geometry = Geometry(extent=extent, axes=axes, readout=None if readout is None else axes.index(readout))
    return geometry.series(FRAME, description["frames"]) if description["series"] else geometry


def shape_of(description: Mapping[str, Any]) -> tuple[int, ...]:
    """The size of k-space in a description; of series, with the number of frames."""
    return (*([description["frames"]] if description["series"] else []), *description["shape"])


MEGABYTE = 1_000_000
ENDINGS = (*READERS, ".hdr")
"""What promask reads; .hdr goes with .cfl."""
MASK_ENDINGS = tuple(BY_SUFFIX)
MOST_FILES = 2000
"""In one upload: a few series of DICOM."""
MOST_UPLOADS = 10
"""Kept at a time; then the oldest goes."""
LONGEST_NAME, LONGEST_BYTES = 100, 200
FOLDER = "scans"
"""The name of the folder that several files become."""


@dataclass
class Upload:
    """Files that belong together, in a folder of their own."""

    id: str
    folder: Path
    used: float = field(default_factory=time.monotonic)
    """When somebody last asked for it."""
    users: int = 0
    """How many jobs wait for it or work on it, or write to it."""
    size: int = 0
    names: list[str] = field(default_factory=list)
    descriptions: dict[Reading, dict[str, Any]] = field(default_factory=dict)
    """What the files hold, for each way to read them that was asked for."""

    @property
    def files(self) -> Path:
        """The folder of the files alone."""
        return self.folder / FOLDER

    def locate(self) -> tuple[Path, str]:
        """The folder to work in, and DATA as seen from there: the one file, or the folder of several."""
        data = [name for name in self.names if not name.lower().endswith(".hdr")]
        if not data:
            raise RefusedError(400, "There is no file yet that promask reads: choose one first.")
        return (self.files, data[0]) if len(data) == 1 else (self.folder, FOLDER)

    def locate_mask(self) -> Path:
        """The one file of a mask."""
        folder, name = self.locate()
        if folder != self.files:
            raise RefusedError(400, "A mask is one file, or the two of BART: choose one mask.")
        return folder / name


def safe_name(name: str) -> str:
    """A name without a folder, of harmless letters, with an ending that promask reads.

    >>> safe_name("../../my scan (1).NPZ")
    'my_scan_1_.NPZ'
    """
    base = PurePosixPath(name.replace("\\", "/")).name
    stem, ending = split_name(Path(base))
    endings = dict.fromkeys((*ENDINGS, *MASK_ENDINGS))
    if ending.lower() not in endings:
        shown = re.sub(r"[^\w.+ -]", "_", base)[:LONGEST_NAME] or "A file without a name"
        raise RefusedError(
            400, f"{shown} is not a file that promask reads: its name must end with {', '.join(endings)}."
        )
    stem = re.sub(r"[^\w.+-]+", "_", stem)[:LONGEST_NAME].lstrip(".-+_")
    # File systems count bytes, and some letters have four.
    stem = stem.encode()[:LONGEST_BYTES].decode(errors="ignore")
    return (stem or "file") + ending


class Uploads:
    """All uploads of a studio, below one folder."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._all: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def new(self) -> Upload:
        """An upload without files; the oldest that nobody works on makes room for it."""
        upload = Upload(secrets.token_urlsafe(16), self.folder / secrets.token_hex(8))
        upload.files.mkdir(parents=True)
        with self._lock:
            self._all[upload.id] = upload
        self.drop(MOST_UPLOADS)
        return upload

    def get(self, identity: str) -> Upload:
        """The upload of this id."""
        with self._lock:
            if identity not in self._all:
                raise RefusedError(404, "The studio no longer has these files: choose them again.")
            upload = self._all[identity]
            upload.used = time.monotonic()
            return upload

    def count_user(self, upload: Upload, change: int) -> None:
        """Note that somebody began to work on the files, 1, or has finished, -1; they are kept in between."""
        with self._lock:
            upload.users += change
            upload.used = time.monotonic()

    @contextmanager
    def in_use(self, upload: Upload) -> Iterator[None]:
        """Keep the files as long as this lasts."""
        self.count_user(upload, 1)
        try:
            yield
        finally:
            self.count_user(upload, -1)

    async def receive(self, upload: Upload, name: str, declared: int | None, body: AsyncIterable[bytes]) -> str:
        """Write a file as it comes; one that is too large, or breaks off, leaves nothing behind."""
        name = safe_name(name)
        if name.lower() in (known.lower() for known in upload.names):
            raise RefusedError(409, f"There are two files of the name {name}: rename one of them.")
        if len(upload.names) >= MOST_FILES:
            raise RefusedError(413, f"These are more than {MOST_FILES} files: use promask learn for them.")
        too_large = RefusedError(
            413,
            f"The files are larger than {self.limit / MEGABYTE:g} MB together, the limit of this studio: start it "
            f"with a larger --limit, or use promask learn.",
        )
        if declared is not None and upload.size + declared > self.limit:
            raise too_large
        upload.names.append(name)  # nobody else may write it from now on
        upload.descriptions = {}
        path, size = upload.files / name, 0
        with self.in_use(upload):
            try:
                with path.open("xb") as file:
                    async for chunk in body:
                        size += len(chunk)
                        upload.size += len(chunk)
                        if upload.size > self.limit:
                            raise too_large
                        file.write(chunk)
                if size == 0:
                    raise RefusedError(400, f"{name} is empty.")
            except BaseException as error:
                path.unlink(missing_ok=True)
                upload.names.remove(name)
                upload.size -= size
                if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                    raise RefusedError(507, "There is no room left on the disk of the studio.") from error
                raise
        return name

    def drop(self, keep: int, older: float = 0.0) -> None:
        """Remove the oldest uploads that nobody works on: those beyond `keep`, if they are `older`, in seconds."""
        with self._lock:
            idle = sorted((each for each in self._all.values() if not each.users), key=lambda each: each.used)
            surplus = max(0, len(self._all) - keep)
            dropped = [each for each in idle[:surplus] if time.monotonic() - each.used >= older]
            for upload in dropped:
                del self._all[upload.id]
        for upload in dropped:
            with suppress(OSError):
                shutil.rmtree(upload.folder)
