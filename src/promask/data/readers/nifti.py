"""NIfTI volumes: slices of a plane, upright, in the units of the file."""

import gzip
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from promask.data.atomic import Array
from promask.data.axes import CONTRAST, FRAME, SLICE, Axes
from promask.data.reading import PLANES, Reading
from promask.data.sample_file import RawSample, SampleFile, refuse_array_settings
from promask.data.sandbox import PIECE, check_claim, report_damage, silence_libraries
from promask.errors import InputError
from promask.types import Geometry

if TYPE_CHECKING:
    from nibabel.spatialimages import SpatialImage

KIND = "a NIfTI file"
SUFFIXES = (".nii.gz", ".nii")
LONGEST_HEADER = 4 << 20
"""Bytes before the voxels: nibabel also reads the notes that programs leave there."""
SECONDS = ("sec", "msec", "usec")
FOURTH_AXES = {"x y z frame": FRAME, "x y z contrast": CONTRAST}
LABEL_ENDS = ("_gt", "_seg", "_dseg", "_label", "_labels")
"""A file whose name ends in one of these holds the labels of the file without it."""


def read_nifti(path: Path, reading: Reading) -> SampleFile:
    """The slices of a volume, (x, y, z), perhaps with contrasts or frames, and the labels of a file beside it."""
    labels = next((file for file in _label_names(path) if file.exists()), None)
    return read_volumes([path], reading, labels)


def read_volumes(
    paths: Sequence[Path],
    reading: Reading,
    labels: Path | None = None,
    through: int | None = None,
    fourth: str | None = None,
) -> SampleFile:
    """The slices of volumes that lie on one grid, as contrasts; `through` is the axis across the slices.

    A `fourth` axis, if it is not known, is time if the header gives its step in seconds, or `reading.axes` says
    so; otherwise it is contrasts.
    """
    refuse_array_settings(paths[0], replace(reading, axes=None))
    with report_damage(paths[0], KIND):
        image = _load(paths[0])
        view = View.of(image, reading, through)
        fourth = fourth or _fourth_axis(image, reading, paths[0])
        frames = image.shape[3] if fourth == FRAME else 1
    views = _views(paths, labels, image, view, by_voxel=through is not None)
    contrasts = image.shape[3] // frames if len(image.shape) == 4 else len(paths)
    depth, *plane = (image.shape[axis] for axis in view.axes)
    if 0 in image.shape:
        raise InputError(f"{paths[0]} holds no images: its shape is {list(image.shape)}.")
    kept = reading.choose_slices(depth)
    numbers: Sequence[int] = range(min(1, len(kept)) * frames)
    if not reading.volumes:
        numbers = kept if frames == 1 else [place * frames + frame for place in kept for frame in range(frames)]

    def read(chosen: Sequence[int]) -> Iterator[RawSample]:
        parts = [_volumes(path, views[path]) for path in paths]
        volumes = parts[0] if len(parts) == 1 else np.concatenate(parts)
        labelled = None if labels is None else _volumes(labels, views[labels])[0]
        for number in chosen:
            place = kept if reading.volumes else number // frames
            values = volumes[:, place] if frames == 1 else volumes[number % frames, place][None]
            yield values, None if labelled is None else labelled[place]

    space = (len(kept), *plane) if reading.volumes else tuple(plane)
    files = (*paths, labels) if labels is not None else tuple(paths)
    variant = f"nifti {list(views.values())}, {list(kept) if reading.volumes else ''}, {frames}"
    voxel = tuple(float(image.header.get_zooms()[axis]) for axis in view.axes)
    return SampleFile(
        files=files,
        shape=(contrasts, *space),
        numbers=numbers,
        read=read,
        geometry=Geometry(
            axes=("kz", "ky", "kx") if reading.volumes else ("ky", "kx"),
            channels=CONTRAST if contrasts > 1 else "",
            voxel=voxel if reading.volumes else voxel[1:],
        ),
        counts={name: n for name, n in ((SLICE, 1 if reading.volumes else depth), (FRAME, frames)) if n > 1},
        variant=variant,
    )


def _fourth_axis(image: "SpatialImage", reading: Reading, path: Path) -> str:
    """What the fourth axis is: `contrast` or `frame`."""
    header: Any = image.header
    if reading.axes is None:
        timed = len(image.shape) == 4 and header.get_xyzt_units()[1] in SECONDS and header.get_zooms()[3] > 0
        return FRAME if timed and image.shape[3] > 1 else CONTRAST
    axes = str(Axes.parse(reading.axes))
    if axes not in FOURTH_AXES or len(image.shape) < 4:
        named = " or ".join(repr(axes) for axes in FOURTH_AXES)
        raise InputError(f"`axes` of {path} is for a fourth axis, {named}: the header tells the others.")
    return FOURTH_AXES[axes]


@dataclass(frozen=True)
class View:
    """How a volume is looked at."""

    axes: tuple[int, int, int]
    """The axes of the file across the slices, down the rows, and along the columns."""
    turned: tuple[bool, bool, bool]
    """Which of them run backwards."""
    plane: str
    """That of the slices."""

    @staticmethod
    def of(image: "SpatialImage", reading: Reading, through: int | None) -> "View":
        """Slices upright: rows from the top or front of the body, columns from its left to its right.

        Slices count from the bottom, the back or the left of the body; with `through`, as in the file.
        """
        import nibabel

        orientation = nibabel.orientations.io_orientation(image.affine)  # type: ignore[no-untyped-call]
        body = [int(axis) if np.isfinite(axis) else file for file, axis in enumerate(orientation[:, 0])]
        signs = [sign if np.isfinite(sign) else 1 for sign in orientation[:, 1]]
        as_in_file = through is not None
        if through is None:
            through = body.index(PLANES.index(reading.plane)) if reading.plane else _acquired(image, body)
        across, along = sorted((axis for axis in range(3) if axis != through), key=lambda axis: body[axis])
        turned = (bool(signs[through] < 0) and not as_in_file, bool(signs[along] > 0), bool(signs[across] < 0))
        return View((through, along, across), turned, PLANES[body[through]])

    def __call__(self, volume: Array) -> Array:
        """(x, y, z, ...) of the file -> (slice, row, column, ...)."""
        oriented = volume.transpose(*self.axes, *range(3, volume.ndim))
        return oriented[tuple(slice(None, None, -1 if turn else 1) for turn in self.turned)]


def is_label(path: Path) -> bool:
    """Whether a file holds the labels of another one, by its name."""
    stem, suffix = split_name(path)
    return suffix.lower() in SUFFIXES and stem.endswith(LABEL_ENDS)


def split_name(path: Path) -> tuple[str, str]:
    """The name without its ending, and the ending: .nii.gz counts as one."""
    length = next((len(suffix) for suffix in SUFFIXES if path.name.lower().endswith(suffix)), len(path.suffix))
    return path.name[: len(path.name) - length], path.name[len(path.name) - length :]


def _label_names(path: Path) -> Iterator[Path]:
    """Where labels may lie: beside the image, in a folder `labels` there, or, as in the Decathlon, in labelsTr."""
    stem, suffix = split_name(path)
    for ending in dict.fromkeys((suffix, *SUFFIXES)):
        yield from (path.with_name(f"{stem}{end}{ending}") for end in LABEL_ENDS)
        yield path.parent / "labels" / f"{stem}{ending}"
        if path.parent.name.startswith("images"):
            yield path.parent.with_name(path.parent.name.replace("images", "labels", 1)) / f"{stem}{ending}"


def _acquired(image: "SpatialImage", body: list[int]) -> int:
    """The axis across the acquired slices: that of the longest voxels, or if they are cubes, up the body."""
    if 1 in image.shape[:3]:  # a single slice
        return image.shape.index(1)
    lengths = np.abs(np.asarray(image.header.get_zooms()[:3], dtype=float))
    longest = int(np.argmax(lengths))
    return longest if lengths[longest] > 1.05 * np.median(lengths) else body.index(2)


def _views(
    paths: Sequence[Path], labels: Path | None, first: "SpatialImage", view: View, by_voxel: bool
) -> dict[Path, View]:
    """How each file is looked at to show the same place: as the first one, or as its own header says."""
    if len(first.shape) not in (3, 4):
        raise InputError(f"{paths[0]} has shape {list(first.shape)}, but a volume of 3 axes is expected.")
    views = {paths[0]: view}
    for path in [*paths[1:], *([labels] if labels else [])]:
        with report_damage(path, KIND):
            image = _load(path)
            by_header = not by_voxel and _tells_orientation(first) and _tells_orientation(image)
            views[path] = View.of(image, Reading(plane=view.plane), None) if by_header else view
        shape, wanted = image.shape, [first.shape[axis] for axis in view.axes]
        alike = len(shape) >= 3 and [shape[axis] for axis in views[path].axes] == wanted
        if not alike or (path == labels and len(shape) > 3 and shape[3] != 1):
            what = "The labels" if path == labels else "The volume"
            raise InputError(
                f"{what} of {path} have shape {list(shape)}, but those of {paths[0]} {list(first.shape)}."
            )
    return views


def _tells_orientation(image: "SpatialImage") -> bool:
    header: Any = image.header
    return any(int(header[code]) > 0 for code in ("sform_code", "qform_code"))


def _load(path: Path, file: Any = None) -> "SpatialImage":
    """The header of a file, with which its values can be read; from `file` if it is open."""
    import nibabel

    with silence_libraries():
        image = _kind(path).from_file_map({"image": nibabel.FileHolder(str(path), file)})
    scaled = (image.dataobj.slope, image.dataobj.inter) != (1, 0)
    stored = image.get_data_dtype().itemsize
    # Scaled values are computed in double precision, from one array to another.
    check_claim(math.prod(image.shape) * (stored + (2 * max(8, stored) if scaled else 0)), path)
    if len(image.shape) == 2:  # a single slice
        values = np.asanyarray(image.dataobj)[:, :, None]
        return nibabel.Nifti1Image(values, image.affine, image.header)  # type: ignore[no-untyped-call]
    return image


def _open(path: Path) -> BufferedIOBase:
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")


def _kind(path: Path) -> Any:
    """Nibabel's class for a file, whose header is looked at before nibabel reads what lies behind it."""
    import nibabel

    with _open(path) as file:
        start = file.read(max(kind.header_class.sizeof_hdr for kind in (nibabel.Nifti1Image, nibabel.Nifti2Image)))
    for kind in (nibabel.Nifti1Image, nibabel.Nifti2Image):
        header: Any = kind.header_class
        if header.may_contain_header(start) and len(start) >= header.sizeof_hdr:
            about: Any = header(start[: header.sizeof_hdr], check=False)
            if not 0 <= about["vox_offset"] <= LONGEST_HEADER:
                raise InputError(f"{path} is damaged: its voxels begin at byte {about['vox_offset']:.0f}.")
            return kind
    raise InputError(f"{path} is damaged: it is not a NIfTI file that can be read.")


def _volumes(path: Path, view: View) -> Array:
    """(contrast, slice, row, column)."""
    with report_damage(path, KIND), _open(path) as file:
        values = np.asanyarray(_load(path, file).dataobj)
        while file.read(PIECE):  # up to the checksum of a compressed file, which nibabel does not look at
            check_claim(file.tell(), path)
    if values.dtype.kind not in "buifc":
        raise InputError(f"{path} holds {values.dtype} values, but numbers are expected.")
    volumes = values.reshape(*values.shape[:3], -1)
    return np.moveaxis(view(volumes), 3, 0)
