"""Drawing kit and scanner model shared by the procedural anatomies.

Coordinates are fractions of the field of view: (0, 0) is the top left corner, (1, 1) the bottom right one,
x runs to the right and y downwards, so an anatomy looks the same at every image size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from numpy.random import Generator
from scipy import ndimage

Points = npt.NDArray[np.floating[Any]]
Raster = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.uint8]
Numbers = npt.NDArray[Any] | Sequence[Any] | float
Image = npt.NDArray[np.inexact[Any]]

# Catmull-Rom: the cubic goes through its knots, and moving one knot only bends the curve nearby.
_CATMULL_ROM = 0.5 * np.array([[0, 2, 0, 0], [-1, 0, 1, 0], [2, -5, 4, -1], [-1, 3, -3, 1]], dtype=np.float64)


@dataclass(frozen=True)
class Anatomy:
    """The slices of a procedural data set.

    `image` is (N, H, W) float32 or complex64, `label` (N, H, W) uint8, and `subject` names the subject of
    each of the N slices, e.g. `Anatomy(image, label, ["knee-000", "knee-000", "knee-001"])`. If the anatomy
    moves, each slice is a series of T frames, and `image` and `label` are (N, T, H, W).
    """

    image: Image
    label: Labels
    subject: list[str]


class Waves:
    """A smooth random function of position and depth.

    A sum of plane waves: `Waves(rng, 1, 0.01, 1.5)(points, depth)` maps (..., 2) points to (..., 1) values
    with a standard deviation of about 0.01 and about 1.5 periods over the field of view.
    """

    def __init__(self, rng: Generator, outputs: int, amplitude: float, frequency: float) -> None:
        """Draw eight waves."""
        self._vectors = rng.normal(0, 2 * np.pi * frequency / np.sqrt(2), (2, 8))
        # About a third of a period over the stack: depth changes a shape, but never beyond recognition.
        self._depth, self._phase = rng.normal(0, 2, 8), rng.uniform(0, 2 * np.pi, 8)
        weights = rng.normal(size=(8, outputs))
        self._weights = weights * amplitude * np.sqrt(2) / np.linalg.norm(weights, axis=0)

    def __call__(self, points: Points, depth: float) -> Points:
        """Evaluate at (..., 2) points, giving (..., outputs)."""
        shift = depth * self._depth + self._phase
        return np.asarray(np.sin(points @ self._vectors + shift) @ self._weights)


def curve(knots: Numbers, closed: bool = True) -> Points:
    """Draw a smooth curve through knots, with eight steps from each to the next.

    (K, 2) knots give (8 K, 2) points, or (8 K - 7, 2) if open, e.g. `curve([(0, 0), (1, 0), (0.5, 1)])`.
    """
    inner = np.asarray(knots, dtype=np.float64)
    ends = (inner[-1:], inner[:2]) if closed else (2 * inner[:1] - inner[1:2], 2 * inner[-1:] - inner[-2:-1])
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([ends[0], inner, ends[1]]), 4, axis=0)
    powers = (np.arange(8) / 8)[:, None] ** np.arange(4)
    points: Points = np.einsum("sk,ndk->nsd", powers @ _CATMULL_ROM, windows).reshape(-1, 2)
    return points if closed else np.concatenate([points, inner[-1:]])


def ellipse(centre: Numbers, radii: Numbers, angle: Numbers = 0.0) -> Points:
    """Draw ellipses.

    (..., 2) centres and radii and (...) angles in radians give (..., 48, 2) outlines, e.g.
    `ellipse((0.5, 0.5), (0.2, 0.1))`.
    """
    turn = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    radii, angle = np.asarray(radii, dtype=np.float64), np.asarray(angle, dtype=np.float64)[..., None]
    x, y = radii[..., :1] * np.cos(turn), radii[..., 1:] * np.sin(turn)
    around = np.stack([x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)], axis=-1)
    return around + np.asarray(centre, dtype=np.float64)[..., None, :]


def offset(points: Points, distance: Numbers, closed: bool = True) -> Points:
    """Move curves along their normals.

    (..., M, 2) points and a distance, or (M,) distances, give (..., M, 2) points. Positive distances grow a
    closed curve, e.g. `offset(ellipse((0.5, 0.5), (0.2, 0.2)), 0.01)`.
    """
    first, last = points[..., :1, :], points[..., -1:, :]
    ring = np.concatenate([last, points, first] if closed else [first, points, last], axis=-2)
    outwards = _orientation(points, ring[..., 2:, :]) if closed else 1
    normal = (ring[..., 2:, :] - ring[..., :-2, :])[..., ::-1] * np.array([1, -1]) * outwards
    step = np.asarray(distance) / np.maximum(np.hypot(normal[..., 0], normal[..., 1]), 1e-12)
    return np.asarray(points + normal * step[..., None])


def stroke(points: Points, width: Numbers, closed: bool = False) -> Points:
    """Outline a line of a given width.

    (M, 2) points and one or (M,) widths give the outline of the line, e.g.
    `stroke(curve([(0.1, 0.1), (0.5, 0.2), (0.9, 0.1)], closed=False), 0.01)`.
    """
    half = np.broadcast_to(np.asarray(width) / 2, len(points))
    if closed:
        points, half = np.concatenate([points, points[:1]]), np.append(half, half[0])
    return np.concatenate([offset(points, half, closed=False), offset(points, -half, closed=False)[::-1]])


def coverage(outlines: Points, size: int) -> Raster:
    """Measure how much of each pixel closed outlines cover.

    (..., M, 2) outlines give (size, size) values from 0 to 1, almost exactly and without supersampling:
    every piece of an outline adds its height to the pixels on its right (Green's theorem).
    """
    start = outlines.reshape(-1, *outlines.shape[-2:]) * size
    after = np.concatenate([start[:, 1:], start[:, :1]], axis=1)
    pieces = int(np.ceil(np.abs(after - start).max())) or 1
    nodes = start[:, :, None] + (after - start)[:, :, None] * (np.arange(pieces + 1) / pieces)[:, None]
    x0, y0, x1, y1 = nodes[:, :, :-1, 0], nodes[:, :, :-1, 1], nodes[:, :, 1:, 0], nodes[:, :, 1:, 1]
    # A piece is at most one pixel high and so crosses at most one pixel row border, where it is cut.
    row0, row1 = np.floor(y0), np.floor(y1)
    cut = np.clip(np.maximum(row0, row1), np.minimum(y0, y1), np.maximum(y0, y1))
    x_cut = x0 + (x1 - x0) * (cut - y0) / np.where(y1 == y0, 1, y1 - y0)
    row = np.stack([row0, row1]).astype(np.intp).ravel()
    x = np.clip(np.stack([x0 + x_cut, x_cut + x1]) / 2, 0, size).ravel()
    # All outlines turn the same way, so that overlapping ones add up to a union instead of cancelling.
    height = (np.stack([cut - y0, y1 - cut]) * _orientation(start, after)).ravel()
    height[(row < 0) | (row >= size)] = 0
    row, column = np.clip(row, 0, size - 1), x.astype(np.intp)
    # Only the bounding box needs work, which matters because most organs are small.
    top, left, rows, columns = row.min(), column.min(), np.ptp(row) + 1, np.ptp(column) + 2
    index, right = (row - top) * columns + column - left, height * (x - column)
    edges = np.bincount(index, height - right, rows * columns) + np.bincount(index + 1, right, rows * columns)
    winding = np.cumsum(edges.reshape(rows, columns), axis=1)[:, : size - left]
    result = np.zeros((size, size), dtype=np.float32)
    result[top : top + rows, left : left + columns] = np.minimum(np.abs(winding), 1)
    return result


def _orientation(points: Points, after: Points) -> Points:
    """Tell closed outlines that turn clockwise on screen, 1, from others, -1; shaped (..., 1, 1)."""
    doubled_area = (points[..., 0] * after[..., 1] - points[..., 1] * after[..., 0]).sum(axis=-1)
    return np.asarray(np.sign(doubled_area))[..., None, None]


class Placement:
    """How a template is bent into one subject.

    Displaces it smoothly at a coarse and a fine scale, so that neighbouring organs move together, then turns,
    scales and shifts the whole: `Placement(rng, turn=0.1, bend=0.01)(points, depth)` maps (..., 2) points.
    """

    def __init__(self, rng: Generator, turn: float, bend: float) -> None:
        """Draw a subject; `turn` is in radians and `bend` in fractions of the field of view."""
        angle, scale = rng.normal(0, turn), np.exp(rng.normal(0, 0.06, 2))
        self._matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]) * scale
        self._centre = 0.5 + rng.normal(0, 0.015, 2)
        self._coarse, self._fine = Waves(rng, 2, bend, 1.0), Waves(rng, 2, bend / 12, 4.0)

    def __call__(self, points: Points, depth: float) -> Points:
        """Move (..., 2) template points to where they are in the slice at this depth."""
        bent = points + self._coarse(points, depth) + self._fine(points, 3 * depth)
        return np.asarray((bent - 0.5) @ self._matrix + self._centre)


class Canvas:
    """Tissue, painted back to front into `image`, and its `label`, both (size, size)."""

    def __init__(self, size: int, placement: Placement, depth: float) -> None:
        """Begin with air; outlines will pass through the subject's placement."""
        self.size = size
        self.image: Raster = np.zeros((size, size), dtype=np.float32)
        self.label: Labels = np.zeros((size, size), dtype=np.uint8)
        self._place = partial(placement, depth=depth)

    def copy(self) -> Canvas:
        """Begin from what has been painted so far, and leave this canvas as it is."""
        twin = copy(self)
        twin.image, twin.label = self.image.copy(), self.label.copy()
        return twin

    def mask(self, outlines: Points) -> Raster:
        """Rasterise (..., M, 2) outlines to (size, size) values from 0 to 1."""
        return coverage(self._place(outlines), self.size)

    def paint(self, region: Points | Raster, tissue: float | Raster, label: int | None = None) -> Raster:
        """Cover outlines, or a mask, with tissue and return the mask.

        Without a label the labels below stay, e.g. `canvas.paint(ellipse((0.5, 0.5), (0.2, 0.1)), 0.8, 3)`.
        """
        mask = self.mask(region) if region.shape[-1] == 2 else region
        self.image += mask * (tissue - self.image)
        if label is not None:
            self.label[mask >= 0.5] = label
        return mask


def texture(rng: Generator, size: int, scale: float, stretch: float = 1, slope: float = 0) -> Raster:
    """Draw a (size, size) random field with unit variance.

    Its correlation length is `scale`, and `stretch` times that along y. A positive `slope` turns the Gaussian
    spectrum into a power law with that exponent, e.g. `texture(rng, 192, 0.03, slope=3)`.
    """
    ky, kx = np.fft.fftfreq(size, 1 / size)[:, None] * stretch, np.fft.rfftfreq(size, 1 / size)
    squared = (2 * np.pi * scale) ** 2 * (kx**2 + ky**2)
    gain = (1 + squared) ** (-slope / 4) if slope else np.exp(-squared / 4)
    gain[0, 0] = 0
    noise = rng.standard_normal((2, *gain.shape), dtype=np.float32)
    field = np.fft.irfft2((noise[0] + 1j * noise[1]) * gain.astype(np.float32), (size, size))
    return np.asarray(field / field.std(), dtype=np.float32)


def _scan(rng: Generator, tissue: Raster, coils: Points, noise: float, phase: bool) -> Image:
    """Image a stack of tissue with surface coils, blur, complex noise and, if asked, a phase.

    The stack is (S, H, W) or, if the tissue moves, (S, T, H, W). Frames differ in their noise and share a phase.
    """
    grid = np.stack(np.meshgrid(*[(np.arange(tissue.shape[-1]) + 0.5) / tissue.shape[-1]] * 2), axis=-1)
    distance = np.linalg.norm(grid - coils[:, None, None], axis=-1)
    sensitivity = np.sqrt(((1 + (distance / 0.37) ** 2) ** -2.0).sum(axis=0))
    clean = ndimage.gaussian_filter((tissue * sensitivity).astype(np.float32), 0.48, axes=(-2, -1))
    clean /= np.percentile(clean, 99.5)
    grain = rng.standard_normal((2, *tissue.shape), dtype=np.float32) * noise * clean[clean > 0.1].mean()
    # White complex noise looks the same under any phase, so both versions may share the same draw.
    signal = clean + grain[0] + 1j * grain[1]
    if not phase:
        return np.asarray(np.abs(signal), dtype=np.float32)
    waves, ramp = Waves(rng, 1, 0.8, 0.7), rng.normal(0, 1.5, 2)
    angle = np.stack([waves(grid, depth)[..., 0] + grid @ ramp for depth in np.linspace(0, 1, len(tissue))])
    turned = np.exp(1j * angle) if tissue.ndim == 3 else np.exp(1j * angle)[:, None]
    return np.asarray(signal * turned, dtype=np.complex64)


@runtime_checkable
class Drawing(Protocol):
    """A slice that has been drawn: tissue and labels, both (H, W) or, if the anatomy moves, (T, H, W)."""

    @property
    def image(self) -> Raster:
        """The tissue."""

    @property
    def label(self) -> Labels:
        """The labels."""


@runtime_checkable
class Model(Protocol):
    """One subject: (C, 2) centres of receive coils, and a way to draw slices at depths from 0 to 1."""

    coils: Points

    def slice(self, rng: Generator, size: int, depth: float) -> Drawing:
        """Draw one slice; the anatomy is settled, `rng` serves its texture."""


def acquire(
    name: str,
    model: Callable[[Generator], Model],
    counts: tuple[int, int, int],
    seed: int,
    noise: float,
    phase: bool,
) -> Anatomy:
    """Draw and scan images; `counts` are subjects, slices and size. Each subject has its own random stream."""
    subjects, slices, size = counts
    images, labels = list[Image](), list[Labels]()
    for subject in range(subjects):
        rng = np.random.default_rng((seed, subject))
        person = model(rng)
        drawn = [person.slice(rng, size, (index + 0.5) / slices) for index in range(slices)]
        images.append(_scan(rng, np.stack([canvas.image for canvas in drawn]), person.coils, noise, phase))
        labels.extend(canvas.label for canvas in drawn)
    names = [f"{name}-{subject:03d}" for subject in range(subjects) for _ in range(slices)]
    return Anatomy(np.concatenate(images), np.stack(labels), names)
