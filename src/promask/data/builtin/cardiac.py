"""Procedural short-axis cardiac cine MRI."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from promask.data.builtin.phantom import (
    Anatomy,
    Canvas,
    Placement,
    Points,
    Raster,
    Waves,
    acquire,
    curve,
    ellipse,
    offset,
    stroke,
    texture,
)

RIGHT_CAVITY, MYOCARDIUM, LEFT_CAVITY = 1, 2, 3

# Intensities as in balanced steady-state free precession, where fat and water cancel along their border.
_FAT, _BLOOD, _WALL, _MUSCLE, _LUNG, _INK = 0.9, 0.8, 0.26, 0.24, 0.03, 0.05

_BODY = np.array(
    [
        *[(-0.15, 0.62), (0.0, 0.43), (0.18, 0.27), (0.4, 0.14), (0.62, 0.08), (0.86, 0.08)],
        *[(1.0, 0.25), (1.0, 0.56), (0.91, 0.86), (0.68, 1.12), (0.25, 1.18), (-0.12, 0.95)],
    ]
)
_DIAPHRAGM = np.array(
    [
        *[(-0.2, 0.57), (0.05, 0.53), (0.2, 0.54), (0.35, 0.565), (0.5, 0.59), (0.65, 0.61), (0.8, 0.68)],
        *[(0.92, 0.82), (0.95, 1.2), (0.4, 1.3), (-0.2, 1.2)],
    ]
)
_LIVER_EDGE = np.array(
    [
        *[(-0.2, 0.6), (0.06, 0.545), (0.2, 0.555), (0.33, 0.585), (0.46, 0.615), (0.47, 0.65)],
        *[(0.37, 0.69), (0.29, 0.78), (0.17, 0.92), (-0.2, 1.0)],
    ]
)
_BACK_EDGE = np.array(
    [(0.25, 0.95), (0.33, 0.86), (0.42, 0.86), (0.5, 0.87), (0.58, 0.93), (0.6, 1.1), (0.2, 1.1)]
)
_SPLEEN_EDGE = np.array(
    [(0.79, 0.73), (0.85, 0.74), (0.9, 0.84), (0.86, 0.97), (0.77, 1.03), (0.76, 0.95), (0.8, 0.88)]
)

# Centres, radii and angles of aorta, inferior vena cava and, as bright as blood, the spinal canal.
_GREAT_VESSELS = (
    np.array([(0.5, 0.835), (0.4, 0.77), (0.385, 1.03)]),
    np.array([(0.033, 0.031), (0.03, 0.022), (0.035, 0.025)]),
    np.array([0.0, 0.5, 0.2]),
)


def cardiac(
    subjects: int = 20,
    slices: int = 6,
    size: int = 192,
    seed: int = 0,
    noise: float = 0.01,
    phase: bool = False,
) -> Anatomy:
    """Draw short-axis stacks of hearts.

    Gives `subjects * slices` images of (size, size) from base to apex, and labels with 0 background, 1 right
    ventricular cavity, 2 myocardium and 3 left ventricular cavity. `noise` is relative to the typical tissue
    intensity; `phase` asks for complex images. A subject depends on the seed and its number alone.

    >>> cardiac(subjects=2, slices=3, size=64).image.shape
    (6, 64, 64)
    """
    return acquire("cardiac", Chest, (subjects, slices, size), seed, noise, phase)


@dataclass(frozen=True)
class Moment:
    """How a moment of the heartbeat differs from the one that `cardiac` draws, which is the default.

    Args:
        area: Area of the left ventricular cavity, relative to that of `cardiac`.
        width: Width of the right ventricle in units of the left one's, relative to that of `cardiac`.
        turn: Rotation about the long axis, in radians.
        shift: Displacement to the right and downwards on the image, in fractions of the field of view.
        blood: Brightness of the blood, relative to that of `cardiac`.
    """

    area: float = 1.0
    width: float = 1.0
    turn: float = 0.0
    shift: tuple[float, float] = (0.0, 0.0)
    blood: float = 1.0


class Chest:
    """The chest of one subject."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Draw the subject's build."""
        self._placement = Placement(rng, turn=0.15, bend=0.016)
        self._layers = Waves(rng, 2, 0.2, 1.2)
        self._fat = rng.uniform(0.025, 0.06)
        self._wall = rng.uniform(0.05, 0.075)
        self._ribs = np.arange(14, 70, 6) + rng.uniform(0, 6) + rng.normal(0, 0.7, 10)
        self._rib_sizes = rng.uniform((0.014, 0.006), (0.03, 0.011), (10, 2))
        self._diaphragm = rng.normal(0, 0.015)
        self._stomach = rng.uniform(0.15, 0.6)
        self.coils: Points = np.array([(0.25, 0.05), (0.7, -0.05), (0.0, 0.45), (1.05, 0.4), (0.6, 1.25)])
        self.coils += rng.normal(0, 0.06, self.coils.shape)
        self._vessels = rng.uniform((0.1, 0.1), (1, 0.9), (60, 2))
        self._vessel_course = rng.normal(0, 0.06, (60, 2))
        self._vessel_radii = np.exp(rng.normal(-5.4, 0.4, (60, 2)))

        place, radii = rng.uniform((0.1, 0.7), (0.85, 1.0), (9, 2)), rng.uniform(0.02, 0.05, (9, 2))
        self._bowel = ellipse(place, radii, rng.uniform(0, 3, 9))
        self._across = rng.normal(0.56, 0.015)
        self._towards_right = np.pi + rng.normal(0.15, 0.15)
        self._cavity = rng.uniform(0.085, 0.115)
        # What contraction takes from the cavity it adds to the wall.
        self._thickness = 0.004 / self._cavity * rng.uniform(0.7, 1.0)
        self._right_width = rng.uniform(0.85, 1.15)
        self._trabeculae = rng.uniform(0, 2 * np.pi, 5)
        self._epicardial_fat = rng.uniform(0.004, 0.012)

    def slice(self, rng: np.random.Generator, size: int, depth: float) -> Canvas:
        """Draw the slice at a depth from 0, base, to 1, apex."""
        canvas, cloudy = self.surroundings(rng, size, depth)
        self.heart(canvas, depth, cloudy, cloudy, Moment())
        return canvas

    def surroundings(self, rng: np.random.Generator, size: int, depth: float) -> tuple[Canvas, Raster]:
        """Draw all but the heart.

        Args:
            rng: For the texture; the anatomy is settled.
            size: Number of rows and of columns.
            depth: From 0, base, to 1, apex.

        Returns:
            The canvas and the texture of the tissue.
        """
        canvas = Canvas(size, self._placement, depth)
        cloudy = texture(rng, size, 0.03, slope=3)
        sheet = texture(rng, size, 0.025)
        septa = np.exp(-(sheet**2) / 0.02)
        cavity = self._chest_wall(canvas, depth, cloudy, septa)
        self._abdomen(canvas, cavity, depth, cloudy, sheet)
        self._pad(canvas, cavity, depth, cloudy)
        return canvas, cloudy

    def _chest_wall(self, canvas: Canvas, depth: float, cloudy: Raster, septa: Raster) -> Raster:
        """Paint skin, fat, muscle, ribs and lungs, and return the mask of the cavity."""
        body = curve(_BODY)
        fat, wall = (np.array([self._fat, self._wall]) * np.exp(self._layers(body, depth))).T
        canvas.paint(body, 0.4)
        canvas.paint(offset(body, -0.006), _FAT * (1 - 0.1 * septa))
        muscle = _MUSCLE * (1 + 0.1 * cloudy) + 0.15 * septa
        _organ(canvas, offset(body, -fat), muscle)
        between_muscles = stroke(offset(body, -fat - 0.3 * wall), 0.18 * wall, closed=True)
        canvas.paint(between_muscles, 0.5 * _FAT * (1 + 0.3 * cloudy))
        middle = offset(body, -fat - 0.6 * wall)
        # The slice cuts ribs obliquely, so they slide along the wall from slice to slice.
        at = self._ribs + 3 * depth
        x, y = (np.interp(at, np.arange(len(middle)), middle[:, axis]) for axis in (0, 1))
        course = np.arctan2(np.gradient(y), np.gradient(x))
        for rim, tissue in ((0.004, 0.1), (0.0, 0.38)):
            canvas.paint(ellipse(np.stack([x, y], 1), self._rib_sizes + rim, course), tissue)
        cavity = _organ(canvas, offset(body, -fat - wall), _LUNG * (1 + 0.3 * cloudy))
        centres = self._vessels + self._vessel_course * (depth - 0.5)
        # Vessels fan out from the root of the lung, behind the heart.
        angles = np.arctan2(centres[:, 1] - 0.6, centres[:, 0] - 0.6)
        vessels = canvas.mask(ellipse(centres, self._vessel_radii * (1.6, 1), angles))
        canvas.paint(cavity * vessels, 0.5)
        return cavity

    def _abdomen(self, canvas: Canvas, cavity: Raster, depth: float, cloudy: Raster, sheet: Raster) -> None:
        """Paint what lies below the diaphragm and, with it, the spine and the great vessels."""
        rise = (0, self._diaphragm - 0.03 * depth)
        below = cavity * canvas.mask(curve(_DIAPHRAGM + rise))
        canvas.paint(below, _INK)
        inside = cavity * canvas.mask(offset(curve(_DIAPHRAGM + rise), -0.006))
        canvas.paint(inside, 0.62 * _FAT * (1 + 0.25 * cloudy) * (1 - 0.6 * np.exp(-(sheet**2) / 0.02)))

        _organ(canvas, self._bowel, 0.33 * (1 + 0.3 * cloudy), inside)
        _organ(canvas, curve(_BACK_EDGE), _MUSCLE * (1 + 0.2 * cloudy), inside)
        _organ(canvas, ellipse((0.4, 0.94), (0.075, 0.06), 0.2), 0.4 * (1 + 0.1 * cloudy))
        veins = 0.2 * np.clip(sheet - 1.2, 0, 1)
        _organ(canvas, curve(_LIVER_EDGE + rise), 0.3 * (1 + 0.08 * cloudy) + veins, inside)
        _organ(canvas, curve(_SPLEEN_EDGE + rise), 0.36 * (1 + 0.06 * cloudy), inside)
        stomach = ellipse((0.63, 0.765 + rise[1]), (0.12, 0.07 + 0.02 * depth), 0.35)
        _organ(canvas, stomach, _MUSCLE, inside)
        _organ(canvas, offset(stomach, -0.012), self._stomach * (1 + 0.4 * cloudy), inside)
        _organ(canvas, ellipse((0.68, 0.94), (0.05, 0.07), 0.5), 0.38 * (1 + 0.25 * cloudy), inside)
        _organ(canvas, ellipse(*_GREAT_VESSELS), 0.9 * _BLOOD * (1 + 0.04 * cloudy))

    def _pad(self, canvas: Canvas, cavity: Raster, depth: float, cloudy: Raster) -> None:
        """Paint the fat that fills the angles of the heart in front, at the breast bone, and on the diaphragm."""
        centre, _, outer, width = self._still(depth)
        far = 1.3 + width
        up = max(1.3, 2 * (self._cavity + self._thickness) / outer * (1 - depth**3))
        pad = [(0.3, -0.9), (0.9, -1.3), (far - 0.2 * up, -up), (far, -up), (far, -0.6), (far + 0.1, 0.3)]
        pad += [(far + 0.5, 1.2), (0.4, 1.2), (0, 0)]
        outline = curve(_beside(centre, outer, self._towards_right, pad))
        _organ(canvas, outline, 0.55 * _FAT * (1 + 0.25 * cloudy), cavity)

    def heart(self, canvas: Canvas, depth: float, cloudy: Raster, flow: Raster, moment: Moment) -> None:
        """Paint both ventricles in their pericardium.

        Args:
            canvas: The surroundings.
            depth: From 0, base, to 1, apex.
            cloudy: Texture of the tissue.
            flow: Texture of the blood.
            moment: Of the heartbeat.
        """
        rest, full, outer_full, width = self._still(depth)
        # Muscle keeps its area: what the cavity loses, the epicardium loses as well.
        inner = full * math.sqrt(moment.area)
        outer = outer_full * math.sqrt(1 - (1 - moment.area) * (full / outer_full) ** 2)
        width *= moment.width
        # A ventricle that shrinks stays close to the diaphragm and to the septum: its free wall moves most.
        centre = rest + (outer_full - outer) * np.array([-0.35, 0.5]) + moment.shift
        oval, tilt, septum = np.array([1.03, 0.97]), 0.6 + moment.turn, self._towards_right + moment.turn
        epicardium = ellipse(centre, outer * oval, tilt)
        edge = [(0.2, -0.96), (0.8 + 0.2 * width, -1.0), (1 + 0.65 * width, -0.6), (1 + width, 0.05)]
        edge += [(1 + 0.7 * width, 0.65), (0.75 + 0.3 * width, 0.98), (0.2, 0.95), (0, 0)]
        right = curve(_beside(centre, outer, septum, edge))
        for shrink, tissue in ((0, _INK), (0.005, 0.6 * _FAT)):
            canvas.paint(offset(right, self._epicardial_fat + 0.013 - shrink), tissue)
            canvas.paint(offset(epicardium, 0.013 - shrink), tissue)

        blood = _BLOOD * moment.blood
        canvas.paint(offset(right, 0.007), 0.7 * _WALL)
        canvas.paint(right, 0.95 * blood * (1 + 0.07 * flow), RIGHT_CAVITY)
        band = [(0.95, 0.3), (1 + 0.4 * width, 0.45), (1 + 0.8 * width, 0.5)]
        moderator = curve(_beside(centre, outer, septum, band), closed=False)
        canvas.paint(stroke(moderator, 0.009 * min(1, 2 * depth)), 0.5 * _BLOOD)

        canvas.paint(offset(epicardium, 0.003), _INK)
        canvas.paint(epicardium, _WALL * (1 + 0.06 * cloudy), MYOCARDIUM)
        endocardium = ellipse(centre, inner * oval, tilt)
        turn = np.linspace(0, 2 * np.pi, len(endocardium), endpoint=False)
        waves = np.sin(np.outer(turn, [2, 3, 7, 10, 13]) + self._trabeculae + 2 * depth)
        rough = waves @ np.array([0.03, 0.02, 0.02, 0.02, 0.015]) * inner * (0.5 + depth)
        canvas.paint(offset(endocardium, rough), blood * (1 + 0.06 * flow), LEFT_CAVITY)
        # Papillary muscles count as cavity, as is usual in short-axis contours. They shrink less than it does.
        radii = inner * np.array([0.34, 0.23]) * np.exp(-(((depth - 0.5) / 0.28) ** 4)) / moment.area**0.25
        places = _beside(centre, inner, septum, [(-0.4, 0.54), (-0.44, -0.5)])
        canvas.paint(ellipse(places, np.tile(radii, (2, 1)), septum + np.array([-2, 2.1])), 1.2 * _WALL)

    def _still(self, depth: float) -> tuple[Points, float, float, float]:
        """Give the left ventricle's centre, inner and outer radius, and the right one's width in outer radii."""
        inner = self._cavity * (1 - 0.65 * depth**2.2)
        outer = inner + self._thickness * (1 - 0.25 * depth)
        # The heart rests on the diaphragm, so it sinks as it narrows towards the apex.
        centre = np.array([self._across, 0.59 + self._diaphragm - 0.03 * depth - outer])
        return centre, inner, outer, self._right_width * (1 - depth**1.6)


def _beside(centre: Points, radius: float, towards_right: float, knots: list[tuple[float, float]]) -> Points:
    """Turn knots in units of the left ventricle's radius, x towards the right one, to (K, 2) points."""
    cos, sin = np.cos(towards_right), np.sin(towards_right)
    # A turn and a mirror, which keeps negative y towards the front of the chest.
    placed: Points = centre + radius * np.array(knots) @ np.array([[cos, sin], [sin, -cos]])
    return placed


def _organ(canvas: Canvas, outline: Points, tissue: float | Raster, within: Raster | None = None) -> Raster:
    """Paint an organ with a dark border line and return its mask."""
    border, organ = canvas.mask(offset(outline, 0.004)), canvas.mask(offset(outline, -0.002))
    if within is not None:
        border, organ = border * within, organ * within
    canvas.paint(border, _INK)
    return canvas.paint(organ, tissue)
