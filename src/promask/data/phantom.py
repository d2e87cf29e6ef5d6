"""Drawing kit and scanner model shared by the procedural anatomies.

Coordinates are fractions of the field of view: (0, 0) is the top left corner, (1, 1) the bottom right one,
x runs to the right and y downwards, so an anatomy looks the same at every image size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import ndimage

Points = npt.NDArray[np.float64]
Raster = npt.NDArray[np.float32]
Labels = npt.NDArray[np.uint8]

# Catmull-Rom: the cubic goes through its knots and moving one knot only bends the curve nearby.
_CATMULL_ROM = 0.5 * np.array([[0, 2, 0, 0], [-1, 0, 1, 0], [2, -5, 4, -1], [-1, 3, -3, 1]], dtype=np.float64)


@dataclass(frozen=True)
class Anatomy:
    """Hold the slices of a procedural data set.

    `image` is (N, H, W) float32 or complex64, `label` (N, H, W) uint8, and `subject` names the subject of
    each of the N slices, e.g. `Anatomy(image, label, ["knee-000", "knee-000", "knee-001"])`.
    """

    image: npt.NDArray[np.float32] | npt.NDArray[np.complex64]
    label: Labels
    subject: list[str]


class Waves:
    """Be a smooth random function of position and depth.

    A sum of plane waves, so that it can be evaluated exactly at any point: `Waves(rng, 2, 0.01, 1.5)(points,
    depth)` maps (..., 2) points to (..., 2) values with a standard deviation of 0.01 and about 1.5 periods
    over the field of view.
    """

    def __init__(self, rng: np.random.Generator, outputs: int, amplitude: float, frequency: float) -> None:
        """Draw eight waves."""
        self._vectors = rng.normal(0, 2 * np.pi * frequency / np.sqrt(2), (2, 8))
        # A stack is deep by about half the field of view: depth changes the shape, but never out of recognition.
        self._depth = rng.normal(0, 2, 8)
        self._phase = rng.uniform(0, 2 * np.pi, 8)
        self._weights = rng.normal(0, amplitude / 2, (8, outputs))

    def __call__(self, points: Points, depth: float) -> Points:
        """Evaluate at (..., 2) points, giving (..., outputs)."""
        return np.sin(points @ self._vectors + depth * self._depth + self._phase) @ self._weights


def curve(knots: npt.ArrayLike, closed: bool = True, steps: int = 8) -> Points:
    """Draw a smooth curve through knots.

    (K, 2) knots give (K * steps, 2) points, or ((K - 1) * steps + 1, 2) points when the curve is open, e.g.
    `curve([(0.2, 0.2), (0.8, 0.2), (0.5, 0.8)])`.
    """
    inner = np.asarray(knots, dtype=np.float64)
    before, after = (inner[-1:], inner[:2]) if closed else (2 * inner[:1] - inner[1:2], 2 * inner[-1:] - inner[-2:-1])
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([before, inner, after]), 4, axis=0)
    powers = (np.arange(steps) / steps)[:, None] ** np.arange(4)
    points = np.einsum("sk,ndk->nsd", powers @ _CATMULL_ROM, windows).reshape(-1, 2)
    return points if closed else np.concatenate([points, inner[-1:]])


def ellipse(centre: npt.ArrayLike, radii: npt.ArrayLike, angle: npt.ArrayLike = 0.0, points: int = 48) -> Points:
    """Draw ellipses.

    (..., 2) centres and radii and (...) angles in radians give (..., points, 2) outlines, e.g.
    `ellipse((0.5, 0.5), (0.2, 0.1))`.
    """
    turn = np.linspace(0, 2 * np.pi, points, endpoint=False)
    axes = np.asarray(radii, dtype=np.float64)[..., None, :] * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    cos, sin = np.cos(np.asarray(angle))[..., None], np.sin(np.asarray(angle))[..., None]
    x, y = axes[..., 0], axes[..., 1]
    return np.asarray(centre, dtype=np.float64)[..., None, :] + np.stack([x * cos - y * sin, x * sin + y * cos], -1)


def offset(points: Points, distance: npt.ArrayLike, closed: bool = True) -> Points:
    """Move a curve along its normals.

    (M, 2) points and a distance, or (M,) distances, give (M, 2) points. Positive distances grow a closed
    curve, e.g. `offset(ellipse((0.5, 0.5), (0.2, 0.2)), 0.01)`.
    """
    if closed:
        ring = np.concatenate([points[-1:], points, points[:1]])
        tangent = (ring[2:] - ring[:-2]) * np.sign(_signed_area(points))
    else:
        tangent = np.gradient(points, axis=0)
    normal = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    return points + normal / np.maximum(length, 1e-12) * np.reshape(np.asarray(distance), (-1, 1))


def stroke(points: Points, width: npt.ArrayLike, closed: bool = False) -> Points:
    """Outline a line of a given width.

    (M, 2) points and one or (M,) widths give the closed outline of the line, e.g.
    `stroke(curve([(0.1, 0.1), (0.5, 0.2), (0.9, 0.1)], closed=False), 0.01)`.
    """
    half = np.broadcast_to(np.asarray(width, dtype=np.float64) / 2, len(points))
    if closed:
        points, half = np.concatenate([points, points[:1]]), np.append(half, half[0])
    return np.concatenate([offset(points, half, closed=False), offset(points, -half, closed=False)[::-1]])


def coverage(outlines: Points, size: int) -> Raster:
    """Measure how much of each pixel closed outlines cover.

    (..., M, 2) outlines, in fractions of the field of view, give (size, size) values from 0 to 1. Edges are
    exact to a small fraction of a pixel, which makes supersampling unnecessary: every piece of an outline
    adds its height to the pixels on its right, and what goes up must come down (Green's theorem).
    """
    start = outlines.reshape(-1, *outlines.shape[-2:]) * size
    step = _following(start) - start
    pieces = int(np.ceil(np.abs(step).max())) or 1
    nodes = start[:, :, None] + step[:, :, None] * np.linspace(0, 1, pieces + 1)[:, None]
    x0, y0, x1, y1 = nodes[:, :, :-1, 0], nodes[:, :, :-1, 1], nodes[:, :, 1:, 0], nodes[:, :, 1:, 1]
    # A piece is at most one pixel high and so crosses at most one pixel row border, where it is cut.
    row0, row1 = np.floor(y0), np.floor(y1)
    cut = np.clip(np.maximum(row0, row1), np.minimum(y0, y1), np.maximum(y0, y1))
    x_cut = x0 + (x1 - x0) * (cut - y0) / np.where(y1 == y0, 1, y1 - y0)
    # All outlines turn the same way, so that overlapping ones add up to a union instead of cancelling.
    turn = np.sign(_signed_area(start))[:, None, None]
    row = np.stack([row0, row1]).astype(np.intp).ravel()
    x = np.clip(np.stack([x0 + x_cut, x_cut + x1]) / 2, 0, size).ravel()
    height = (np.stack([cut - y0, y1 - cut]) * turn).ravel()
    height[(row < 0) | (row >= size)] = 0
    row, column = np.clip(row, 0, size - 1), x.astype(np.intp)
    # Only the bounding box needs work, which matters because most organs are small.
    top, left, height_px, width_px = row.min(), column.min(), np.ptp(row) + 1, np.ptp(column) + 2
    index = (row - top) * width_px + column - left
    right = height * (x - column)
    edges = np.bincount(index, height - right, height_px * width_px)
    edges += np.bincount(index + 1, right, height_px * width_px)
    box = np.minimum(np.abs(np.cumsum(edges.reshape(height_px, width_px), axis=1)), 1)
    result: Raster = np.zeros((size, size), dtype=np.float32)
    result[top : top + height_px, left : left + width_px] = box[:, : size - left]
    return result


def _following(outlines: Points) -> Points:
    """Shift (..., M, 2) closed outlines by one point."""
    return np.concatenate([outlines[..., 1:, :], outlines[..., :1, :]], axis=-2)


def _signed_area(outlines: Points) -> Points:
    """Measure twice the area of (..., M, 2) outlines, positive when they turn clockwise on screen."""
    following = _following(outlines)
    area: Points = (outlines[..., 0] * following[..., 1] - outlines[..., 1] * following[..., 0]).sum(axis=-1)
    return area


class Placement:
    """Bend a template into one subject.

    Turns, scales and shifts the whole, then displaces it smoothly at a coarse and a fine scale, so that
    neighbouring organs move together: `Placement(rng, turn=0.1, bend=0.01)(points, depth)` maps (..., 2) points.
    """

    def __init__(self, rng: np.random.Generator, turn: float, bend: float) -> None:
        """Draw a subject; `turn` is in radians and `bend` in fractions of the field of view."""
        angle = rng.normal(0, turn)
        scale = np.exp(rng.normal(0, 0.06, 2))
        self._matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]) * scale
        self._centre = 0.5 + rng.normal(0, 0.015, 2)
        self._coarse = Waves(rng, 2, bend, 1.0)
        self._fine = Waves(rng, 2, bend / 12, 4.0)

    def __call__(self, points: Points, depth: float) -> Points:
        """Move (..., 2) template points to where they are in the slice at this depth."""
        bent = points + self._coarse(points, depth) + self._fine(points, 3 * depth)
        return (bent - 0.5) @ self._matrix + self._centre


class Canvas:
    """Collect tissue, painted back to front, and its labels.

    `image` is (size, size) float32, `label` (size, size) uint8. Outlines pass through the subject's placement
    on their way to the canvas.
    """

    def __init__(self, size: int, placement: Placement, depth: float) -> None:
        """Begin with air."""
        self.size = size
        self.image: Raster = np.zeros((size, size), dtype=np.float32)
        self.label: Labels = np.zeros((size, size), dtype=np.uint8)
        self._placement = placement
        self._depth = depth

    def mask(self, outlines: Points) -> Raster:
        """Rasterise (..., M, 2) outlines to (size, size) values from 0 to 1."""
        return coverage(self._placement(outlines, self._depth), self.size)

    def paint(self, region: Points | Raster, tissue: float | Raster, label: int | None = None) -> Raster:
        """Cover outlines, or a mask, with tissue and return the mask.

        Without a label the labels below stay, e.g. `canvas.paint(ellipse((0.5, 0.5), (0.2, 0.1)), 0.8, 3)`.
        """
        mask = region if region.dtype == np.float32 else self.mask(region)
        self.image += mask * (tissue - self.image)
        if label is not None:
            self.label[mask >= 0.5] = label
        return mask.astype(np.float32, copy=False)


def texture(rng: np.random.Generator, size: int, scale: float, stretch: float = 1.0, slope: float = 0.0) -> Raster:
    """Draw a random field with unit variance.

    Gives (size, size) values with a correlation length of `scale`, `stretch` times that along y. A positive
    `slope` turns the Gaussian spectrum into a power law with that exponent above the corner frequency.
    """
    ky = np.fft.fftfreq(size, 1 / size)[:, None] * scale * stretch
    kx = np.fft.rfftfreq(size, 1 / size) * scale
    squared = (2 * np.pi) ** 2 * (kx**2 + ky**2)
    gain = (1 + squared) ** (-slope / 4) if slope else np.exp(-squared / 4)
    gain[0, 0] = 0
    noise = rng.standard_normal((2, size, size // 2 + 1), dtype=np.float32)
    field = np.fft.irfft2((noise[0] + 1j * noise[1]) * gain.astype(np.float32), (size, size))
    return (field / field.std()).astype(np.float32)


def coil_sensitivity(size: int, centres: Points, reach: float) -> Raster:
    """Sum the magnitudes of loop coils.

    (C, 2) coil centres, which may lie outside the field of view, give (size, size) values, 1 on average;
    the signal halves at about the distance `reach`.
    """
    pixel = (np.arange(size) + 0.5) / size
    x, y = centres[:, 0, None, None], centres[:, 1, None, None]
    squared = (pixel - x) ** 2 + (pixel[:, None] - y) ** 2
    total = np.sqrt(((1 + squared / reach**2) ** -2.0).sum(axis=0))
    return (total / total.mean()).astype(np.float32)


def scan(
    rng: np.random.Generator, tissue: Raster, blur: float, noise: float, phase: bool
) -> npt.NDArray[np.float32] | npt.NDArray[np.complex64]:
    """Image a (S, H, W) stack of tissue.

    The point-spread function blurs by `blur` pixels. The noise is complex, `noise` times the mean tissue
    intensity, and turns Rician in the magnitude; `phase` keeps the complex image and adds a background phase.
    """
    size = tissue.shape[-1]
    sharp = ndimage.gaussian_filter(tissue, (0, blur, blur))
    sharp /= np.percentile(sharp, 99.5)
    sigma = noise * float(sharp[sharp > 0.1].mean())
    grain = rng.standard_normal((2, *tissue.shape), dtype=np.float32) * np.float32(sigma)
    # White complex noise looks the same under any phase, so both versions may share the same draw.
    signal = (sharp + grain[0]) + 1j * grain[1]
    if not phase:
        return np.abs(signal).astype(np.float32)
    pixel = (np.arange(size) + 0.5) / size
    grid = np.stack(np.meshgrid(pixel, pixel), axis=-1)
    waves, ramp = Waves(rng, 1, 0.8, 0.7), rng.normal(0, 1.5, 2)
    depths = np.linspace(0, 1, len(tissue))
    angle = np.stack([waves(grid, float(depth))[..., 0] + grid @ ramp for depth in depths])
    return (signal * np.exp(1j * angle)).astype(np.complex64)
