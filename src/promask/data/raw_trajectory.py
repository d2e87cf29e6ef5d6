"""Raw data along spokes or other trajectories, as scanners have them: read and reconstructed.

No masks are learned from them: that needs all of k-space.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Complex, Float
from torch import Tensor

from promask.data.atomic import NUMBERS, Array, as_tensor
from promask.data.readers.arrays import KSPACE, MAPS, TRAJECTORIES, LazyArray, join_complex, list_names
from promask.data.readers.bart import find_bart_file, find_trajectory_beside, read_bart_array
from promask.data.readers.files import ARRAY_LISTS
from promask.data.sandbox import check_claim, report_damage
from promask.data.sensitivities import normalise_maps, read_maps
from promask.errors import InputError, count, one_line
from promask.operators.measured_trajectory import MeasuredTrajectory
from promask.operators.trajectory import RADIAL, Trajectory
from promask.recon import make_reconstruction
from promask.recon.base import Reconstruction, check_trajectory, reconstruct_spectra
from promask.recon.gridding import grid

PIXEL, FOV, RADIAN = "pixel", "fov", "radian"
UNITS = (PIXEL, FOV, RADIAN)
"""Cycles per pixel, cycles per field of view, and radians per pixel."""
BEYOND = 1e-3
"""Coordinates may leave k-space by so much of its width, by rounding, and are put on its edge then."""
CALIBRATION = (1.5, 4.0, 16.0)
"""The radius of k-space that coil sensitivities are estimated from: a multiple of that within which spokes are
complete, but at least and at most so many cycles per field of view."""


@dataclass(frozen=True)
class RawTrajectory:
    """What a scanner measured along a trajectory.

    Args:
        samples: Of each coil and shot: a spoke, or whatever is read at once.
        points: Their places, (y, x), in cycles per pixel, from -1/2 to 1/2.
        matrix: The size of the images, (y, x).
        name: For messages.
    """

    samples: Complex[Tensor, "coil shot sample"]
    points: Float[Tensor, "shot sample 2"]
    matrix: tuple[int, int]
    name: str

    @cached_property
    def trajectory(self) -> MeasuredTrajectory:
        """What the samples lie on."""
        return MeasuredTrajectory.along(self.points, self.matrix)

    @property
    def complete(self) -> int:
        """How many spokes a complete scan has, or how many samples at least for other trajectories."""
        if self.trajectory.kind == RADIAL:
            return Trajectory.of(RADIAL, self.matrix).full
        return math.ceil(math.pi / 4 * math.prod(self.matrix))

    @property
    def undersampled(self) -> bool:
        """Whether there are fewer."""
        shots, samples = self.points.shape[:2]
        return (shots if self.trajectory.kind == RADIAL else shots * samples) < self.complete

    def sentence(self) -> str:
        """Such as `spokes: 25 of 256 samples, 12 coils, radial, undersampled: 25 of 403 spokes of ...`."""
        coils, shots, samples = self.samples.shape
        radial = self.trajectory.kind == RADIAL
        found = f"{shots} of {samples} samples, {count(coils, 'coil')}, {'radial' if radial else 'not radial'}, "
        size = " x ".join(map(str, self.matrix))
        many = f"{shots} of {self.complete} spokes" if radial else f"{shots * samples} of {self.complete} samples"
        sampled = "undersampled" if self.undersampled else "complete"
        return f"{'spokes' if radial else 'shots'}: {found}{sampled}: {many} of a complete scan for {size}"


def read_raw_trajectory(
    path: str | Path,
    trajectory: str | Path | None = None,
    size: int | tuple[int, int] | None = None,
    units: str | None = None,
) -> RawTrajectory:
    """Read raw data and their trajectory.

    Args:
        path: A .mat, .npz or .h5 file with an array such as `rawdata` or `kspace`, and one such as `k` or `traj`;
            or a .cfl file of BART, (1, sample, shot, coil).
        trajectory: The file of the trajectory, if it is another one; of BART, (3, sample, shot). None: in `path`,
            or for BART the file traj.cfl beside it.
        size: The size of the images, (y, x); None: that of the trajectory.
        units: `pixel`, `fov` or `radian`: cycles per pixel, cycles per field of view, or radians per pixel. None:
            cycles per field of view for BART's files, and cycles per pixel for others.

    Complex coordinates are kx + i ky. Real ones have an axis of directions: x, y (and z, which must be 0) in
    files of BART and MATLAB; in others y, x if it is the last axis, as sigpy and mri-nufft have it.

    Returns:
        The samples with their places.

    Raises:
        InputError: If there is no such pair, or it does not fit together.
    """
    file = find_bart_file(str(path))
    beside = None if trajectory is None else find_bart_file(str(trajectory))
    for each in (file, beside):
        if each is not None and not each.is_file():
            raise InputError(f"{each} is not a file.")
    if units not in (None, *UNITS):
        raise InputError(f"`units` must be {', '.join(UNITS)}, but is {units!r}.")
    if file.suffix.lower() == ".cfl" and beside is None:
        beside = find_trajectory_beside(file)
        if beside is None:
            raise InputError(f"{file} has no trajectory beside it: give its file as `trajectory`.")
    with report_damage(file, "raw data with a trajectory"):
        values, source = _read_values(file, beside is not None), file if beside is None else beside
        places = _read_places(source)
        samples, points = _arrange(values, places, file)
    return _on_grid(samples, points, file, size, units or (FOV if source.suffix.lower() == ".cfl" else PIXEL))


def holds_trajectory(source: str | Path) -> bool:
    """Whether a file holds raw data along a trajectory, or has one beside it, as far as its header tells.

    Args:
        source: Any name of data.

    Returns:
        False also for what is not a file, or cannot be read.
    """
    path = find_bart_file(str(source))
    suffix = path.suffix.lower()
    try:
        if not path.is_file() or suffix not in (*ARRAY_LISTS, ".cfl"):
            return False
        if suffix == ".cfl":
            return find_trajectory_beside(path) is not None
        arrays = ARRAY_LISTS[suffix](path)
    except (InputError, OSError):
        return False
    return len(arrays) > 1 and any(name.lower() in TRAJECTORIES for name in arrays)


def _list_arrays(path: Path) -> Mapping[str, LazyArray]:
    suffix = path.suffix.lower()
    if suffix not in ARRAY_LISTS:
        endings = ", ".join((*ARRAY_LISTS, ".cfl"))
        raise InputError(f"Raw data with a trajectory cannot be read from {path}: give one of {endings}.")
    return ARRAY_LISTS[suffix](path)


def _read_values(path: Path, has_trajectory: bool) -> Array:
    """The samples, with axes in any order."""
    if path.suffix.lower() == ".cfl":
        return read_bart_array(path).T
    arrays = _list_arrays(path)
    others = {
        name: array
        for name, array in arrays.items()
        if array.is_complex and name.lower() not in MAPS and (has_trajectory or name.lower() not in TRAJECTORIES)
    }
    known = [name for name in others if name.lower() in KSPACE]
    chosen = known if len(known) == 1 else list(others)
    if len(chosen) != 1:
        raise InputError(
            f"{path} holds {list_names(arrays)}: call its complex samples {KSPACE[0]}, beside their trajectory."
        )
    return join_complex(arrays[chosen[0]].whole())


def _read_places(path: Path) -> Array:
    """kx + i ky of each sample, with axes in the order of those of the samples."""
    if path.suffix.lower() == ".cfl":
        values = read_bart_array(path).T
        if values.shape[-1] != 3:
            raise InputError(
                f"{path} is no trajectory: its first axis must be x, y, z, but has {values.shape[-1]}."
            )
        return _joined(values.real, -1, path, x_first=True)
    arrays = _list_arrays(path)
    known = [name for name in arrays if name.lower() in TRAJECTORIES or len(arrays) == 1]
    if not known:
        raise InputError(
            f"{path} holds {list_names(arrays)}, but no trajectory: call it {', '.join(TRAJECTORIES)}, or give "
            f"its file as `trajectory`."
        )
    array = arrays[known[0]]
    if not array.is_numeric:
        raise InputError(f"The trajectory of {path} is no array of numbers.")
    values = join_complex(array.whole())
    if values.dtype.kind == "c":
        return values
    ends = [axis for axis in (values.ndim - 1, 0) if values.ndim > 1 and values.shape[axis] in (2, 3)]
    if not ends:
        raise InputError(
            f"The trajectory of {path} has shape {list(values.shape)}: it must be complex, or have an axis of 2 "
            f"or 3 directions at an end."
        )
    return _joined(values, ends[0], path, x_first=path.suffix.lower() == ".mat" or ends[0] == 0)


def _joined(values: Array, axis: int, path: Path, x_first: bool) -> Array:
    """kx + i ky of coordinates along an axis; z must be 0."""
    directions = np.moveaxis(values.astype(np.float64), axis, 0)
    directions = directions if x_first else directions[::-1]
    if np.any(directions[2:]):
        raise InputError(f"The trajectory of {path} is three-dimensional: only slices are reconstructed.")
    x, y = directions[:2]
    return x + 1j * y


def _arrange(values: Array, places: Array, path: Path) -> tuple[Array, Array]:
    """Samples as (coil, shot, sample), and their places as (shot, sample)."""
    places = places.reshape([n for n in places.shape if n > 1] or [1])
    if places.ndim == 1:
        places = places[None]
    if places.ndim != 2:
        raise InputError(
            f"The trajectory of {path} has shape {list(places.shape)}: only single images are reconstructed, of "
            f"shots and their samples."
        )
    shape = [n for n in values.shape if n > 1]
    values = values.reshape(shape)
    wanted = [n for n in places.shape if n > 1]
    for order in itertools.permutations(range(len(shape)), len(wanted)):
        rest = [axis for axis in range(len(shape)) if axis not in order]
        if [shape[axis] for axis in order] == wanted and len(rest) <= 1:
            break
    else:
        raise InputError(
            f"The samples of {path} have shape {list(values.shape)}, which does not fit its trajectory of "
            f"{' x '.join(map(str, places.shape))} places: each sample needs one, for all coils."
        )
    in_order = values.transpose(*rest, *order).reshape(-1, *places.shape)
    along = [
        np.median(np.abs(np.diff(places, axis=axis))) if places.shape[axis] > 1 else math.inf for axis in (0, 1)
    ]
    if along[0] < along[1]:  # a shot is the axis along which places are near to each other
        places, in_order = places.T, in_order.transpose(0, 2, 1)
    return in_order, places


def _on_grid(
    values: Array, places: Array, path: Path, size: int | tuple[int, int] | None, units: str
) -> RawTrajectory:
    """With coordinates in cycles per pixel."""
    if values.dtype.kind not in NUMBERS or not np.isfinite(values).all() or not np.isfinite(places).all():
        raise InputError(
            f"{path} holds NaN or infinite values, among its samples or in its trajectory: mend them."
        )
    points = np.stack([places.imag, places.real], -1).astype(np.float64)
    if points.shape[1] < 2 or not np.any(points) or not np.any(values):
        raise InputError(f"{path} holds no samples of an image: they are all zero, or all at the centre.")
    points /= 2 * math.pi if units == RADIAN else 1
    if size is not None:
        matrix = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
    elif units == FOV:
        y, x = (2 * max(1, math.ceil(float(n) - BEYOND)) for n in np.abs(points).max((0, 1)))
        matrix = (y, x)
    else:
        step = float(np.median(np.linalg.norm(np.diff(points, axis=1), axis=-1)))
        matrix = (2 * max(1, math.ceil(1 / (2 * max(step, 1e-9)) - BEYOND)),) * 2
    if min(matrix) < 2:
        raise InputError(f"`size` must be at least 2, but is {min(matrix)}.")
    check_claim(len(values) * math.prod(matrix) * np.dtype(np.complex64).itemsize, path)
    points /= matrix if units == FOV else 1
    reach = float(np.abs(points).max())
    if reach > 0.5 + BEYOND:
        raise InputError(
            f"The trajectory of {path} leaves k-space: it reaches {reach:.4g} cycles per pixel, but must lie from "
            f"-1/2 to 1/2; if its numbers are cycles per field of view or radians, set `units` to {FOV} or "
            f"{RADIAN}."
        )
    samples = torch.from_numpy(np.ascontiguousarray(values.astype(np.complex64)))
    return RawTrajectory(samples, torch.from_numpy(points).clamp(-0.5, 0.5), matrix, str(path))


def estimate_maps(raw: RawTrajectory) -> Complex[Tensor, "coil y x"]:
    """Coil sensitivities from the middle of k-space: gridded images of low resolution, normalised.

    Args:
        raw: Data of several coils.

    Returns:
        Of sum of squares 1, (coil, y, x).
    """
    factor, least, most = CALIBRATION
    cycles = torch.linalg.vector_norm(raw.trajectory.interleaf * torch.tensor(raw.matrix), dim=1)
    radius = min(max(factor * len(raw.points) / math.pi, least), most)
    window = torch.cos(math.pi / 2 * (cycles / radius).clamp_max(1)).square().float()
    return normalise_maps(_gridded(raw, window)[0], raw.matrix, raw.name)


def _gridded(raw: RawTrajectory, window: Float[Tensor, " sample"]) -> Complex[Tensor, "1 coil y x"]:
    kspace = raw.samples.reshape(1, len(raw.samples), 1, -1)
    return grid(kspace * window, kspace.real.new_ones(1, raw.trajectory.samples), None, raw.trajectory)


def reconstruct_raw(
    raw: RawTrajectory,
    recon: str | Reconstruction = "cg-sense",
    iterations: int | None = None,
    regularisation: float | None = None,
    maps: str | Path | None = None,
) -> Complex[Tensor, "y x"]:
    """The image of raw data.

    Args:
        raw: From `read_raw_trajectory`.
        recon: The reconstruction: `gridding`, `cg-sense`, `cs`, `cs-tv`, or an object.
        iterations: Of the reconstruction; None: its own.
        regularisation: Of the reconstruction; None: its own.
        maps: A file of coil sensitivities; None: estimated from the data.

    Returns:
        The image, (y, x).

    Raises:
        InputError: If the reconstruction is for Cartesian k-space, or for frames, or the sensitivities do not fit.
    """
    made = make_reconstruction(recon, iterations, regularisation)
    check_trajectory(made, raw.trajectory)
    if getattr(made, "temporal", False):
        raise InputError(
            f"{made.name} reconstructs frames, but this is one image: choose gridding, cg-sense or cs."
        )
    if maps is not None:
        sensitivities = _given_maps(raw, str(maps))
    else:
        sensitivities = (
            estimate_maps(raw) if len(raw.samples) > 1 else torch.ones(1, *raw.matrix, dtype=torch.complex64)
        )
    kspace = raw.samples.reshape(1, len(raw.samples), 1, -1)
    everything = kspace.real.new_ones(1, raw.trajectory.samples)
    return reconstruct_spectra(made, kspace, everything, sensitivities[None], 0, raw.trajectory)[0, 0]


def _given_maps(raw: RawTrajectory, source: str) -> Complex[Tensor, "coil y x"]:
    values = read_maps(source, volumes=False)
    if find_bart_file(source).suffix.lower() == ".cfl":
        values = values.swapaxes(-1, -2)  # BART has x first
    if values.shape != (len(raw.samples), *raw.matrix):
        raise InputError(
            f"The coil sensitivities of {one_line(source)} have shape {list(values.shape)}, but {raw.name} needs "
            f"{[len(raw.samples), *raw.matrix]}."
        )
    return normalise_maps(as_tensor(values), raw.matrix, source)
