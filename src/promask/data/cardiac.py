"""Procedural short-axis cardiac cine MRI."""

from __future__ import annotations

import numpy as np

from promask.data.phantom import (
    Anatomy,
    Canvas,
    Placement,
    Points,
    Raster,
    Waves,
    coil_sensitivity,
    curve,
    ellipse,
    offset,
    scan,
    stroke,
    texture,
)

RIGHT_CAVITY, MYOCARDIUM, LEFT_CAVITY = 1, 2, 3

# Intensities as in balanced steady-state free precession, where fat and water cancel along their border.
_FAT, _BLOOD, _HEART, _MUSCLE, _LIVER, _SPLEEN, _LUNG, _SKIN, _INK = 0.9, 0.8, 0.26, 0.24, 0.3, 0.36, 0.03, 0.4, 0.05

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
_BACK_EDGE = np.array([(0.25, 0.95), (0.33, 0.86), (0.42, 0.86), (0.5, 0.87), (0.58, 0.93), (0.6, 1.1), (0.2, 1.1)])
_SPLEEN_EDGE = np.array([(0.79, 0.73), (0.85, 0.74), (0.9, 0.84), (0.86, 0.97), (0.77, 1.03), (0.76, 0.95), (0.8, 0.88)])


def cardiac(
    subjects: int = 20, slices: int = 6, size: int = 192, seed: int = 0, noise: float = 0.01, phase: bool = False
) -> Anatomy:
    """Draw short-axis stacks of hearts.

    Gives `subjects * slices` images of (size, size) from base to apex, and labels with 0 background, 1 right
    ventricular cavity, 2 myocardium and 3 left ventricular cavity. `noise` is relative to the typical tissue
    intensity; `phase` asks for complex images. A subject depends on the seed and its number alone.

    >>> cardiac(subjects=2, slices=3, size=64).image.shape
    (6, 64, 64)
    """
    images, labels = [], []
    for subject in range(subjects):
        rng = np.random.default_rng((seed, subject))
        chest = _Chest(rng)
        canvases = [chest.slice(rng, size, (index + 0.5) / slices) for index in range(slices)]
        tissue = np.stack([canvas.image for canvas in canvases]) * chest.sensitivity(size)
        images.append(scan(rng, tissue, 0.5, noise, phase))
        labels.append(np.stack([canvas.label for canvas in canvases]))
    names = [f"cardiac-{subject:03d}" for subject in range(subjects) for _ in range(slices)]
    return Anatomy(np.concatenate(images), np.concatenate(labels), names)


class _Chest:
    """Be one subject's chest."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Draw the subject's build."""
        self._placement = Placement(rng, turn=0.15, bend=0.016)
        self._layers = Waves(rng, 2, 0.25, 1.2)
        self._fat = rng.uniform(0.025, 0.06)
        self._wall = rng.uniform(0.05, 0.075)
        self._ribs = np.arange(14, 70, 6) + rng.uniform(0, 6) + rng.normal(0, 0.7, 10)
        self._rib_sizes = rng.uniform((0.014, 0.006), (0.03, 0.011), (10, 2))
        self._diaphragm = rng.normal(0, 0.015)
        self._stomach = rng.uniform(0.15, 0.6)
        self._coils = np.array([(0.25, 0.05), (0.7, -0.05), (0.0, 0.45), (1.05, 0.4), (0.6, 1.25)])
        self._coils += rng.normal(0, 0.06, self._coils.shape)
        # Vessels gather towards the hilum, below and right of the heart.
        self._vessels = rng.uniform((0.1, 0.1), (1, 0.9), (110, 2))
        self._vessel_course = rng.normal(0, 0.06, (110, 2))
        self._vessel_radii = np.exp(rng.normal(-5.5, 0.35, (110, 1))) * (1, 1) * np.exp(rng.normal(0, 0.3, (110, 2)))

        place, radii = rng.uniform((0.1, 0.7), (0.85, 1.0), (9, 2)), rng.uniform(0.02, 0.05, (9, 2))
        self._bowel = ellipse(place, radii, rng.uniform(0, 3, 9), 32)
        self._heart = rng.normal(0.56, 0.015)
        self._towards_right = np.pi + rng.normal(0.15, 0.15)
        self._cavity = rng.uniform(0.085, 0.115)
        # What contraction takes from the cavity it adds to the wall.
        self._thickness = 0.004 / self._cavity * rng.uniform(0.7, 1.0)
        self._right_width = rng.uniform(0.85, 1.15)
        self._trabeculae = rng.uniform(0, 2 * np.pi, 5)
        self._epicardial_fat = rng.uniform(0.004, 0.012)

    def sensitivity(self, size: int) -> Raster:
        """Give the (size, size) receive sensitivity of coils on the chest and below the back."""
        return coil_sensitivity(size, self._coils, 0.35)

    def slice(self, rng: np.random.Generator, size: int, depth: float) -> Canvas:
        """Draw the slice at a depth from 0, base, to 1, apex."""
        canvas = Canvas(size, self._placement, depth)
        cloudy = texture(rng, size, 0.03, slope=3)
        sheet = texture(rng, size, 0.025)
        septa = np.exp(-(sheet**2) / 0.02)
        cavity = self._chest_wall(canvas, depth, cloudy, septa)
        self._abdomen(canvas, cavity, depth, cloudy, sheet)
        self._ventricles(canvas, cavity, depth, cloudy)
        return canvas

    def _chest_wall(self, canvas: Canvas, depth: float, cloudy: Raster, septa: Raster) -> Raster:
        """Paint skin, fat, muscle, ribs and lungs, and return the mask of the cavity."""
        body = curve(_BODY)
        fat, wall = (np.array([self._fat, self._wall]) * np.exp(self._layers(body, depth))).T
        canvas.paint(body, _SKIN)
        canvas.paint(offset(body, -0.006), _FAT * (1 - 0.1 * septa))
        muscle = _MUSCLE * (1 + 0.1 * cloudy) + 0.15 * septa
        _organ(canvas, offset(body, -fat), muscle)
        canvas.paint(stroke(offset(body, -fat - 0.3 * wall), 0.18 * wall, closed=True), 0.5 * _FAT * (1 + 0.3 * cloudy))
        middle = offset(body, -fat - 0.6 * wall)
        # The slice cuts ribs obliquely, so they slide along the wall from slice to slice.
        at = self._ribs + 3 * depth
        x, y = (np.interp(at, np.arange(len(middle)), middle[:, axis]) for axis in (0, 1))
        course = np.arctan2(np.gradient(y), np.gradient(x))
        for rim, tissue in ((0.004, 0.1), (0.0, 0.38)):
            canvas.paint(ellipse(np.stack([x, y], 1), self._rib_sizes + rim, course, 20), tissue)
        cavity = _organ(canvas, offset(body, -fat - wall), _LUNG * (1 + 0.3 * cloudy))
        centres = self._vessels + self._vessel_course * (depth - 0.5)
        angles = np.arctan2(*(centres - (0.6, 0.6)).T[::-1])
        vessels = canvas.mask(ellipse(centres, self._vessel_radii * (1.6, 1), angles, 12))
        canvas.paint(cavity * vessels, 0.5)
        return cavity

    def _abdomen(self, canvas: Canvas, cavity: Raster, depth: float, cloudy: Raster, sheet: Raster) -> None:
        """Paint what lies below the diaphragm and, with it, the spine and the great vessels."""
        rise = (0, self._diaphragm - 0.03 * depth)
        below = cavity * canvas.mask(curve(_DIAPHRAGM + rise))
        canvas.paint(below, _INK)
        inside = cavity * canvas.mask(offset(curve(_DIAPHRAGM + rise), -0.006))
        canvas.paint(inside, 0.62 * _FAT * (1 + 0.25 * cloudy) * (1 - 0.6 * np.exp(-(sheet**2) / 0.02)))

        canvas.paint(inside * canvas.mask(self._bowel), 0.33 * (1 + 0.3 * cloudy))
        _organ(canvas, curve(_BACK_EDGE), _MUSCLE * (1 + 0.2 * cloudy), inside)
        _organ(canvas, ellipse((0.4, 0.94), (0.075, 0.06), 0.2), 0.4 * (1 + 0.1 * cloudy))
        _organ(canvas, ellipse((0.385, 1.03), (0.035, 0.025), 0.2), _BLOOD)
        veins = 0.2 * np.clip(sheet - 1.2, 0, 1)
        _organ(canvas, curve(_LIVER_EDGE + rise), _LIVER * (1 + 0.08 * cloudy) + veins, inside)
        _organ(canvas, curve(_SPLEEN_EDGE + rise), _SPLEEN * (1 + 0.06 * cloudy), inside)
        stomach = ellipse((0.63, 0.765) + np.array(rise), (0.12, 0.07 + 0.02 * depth), 0.35)
        _organ(canvas, stomach, _MUSCLE, inside)
        _organ(canvas, offset(stomach, -0.012), self._stomach * (1 + 0.4 * cloudy), inside)
        _organ(canvas, ellipse((0.68, 0.94), (0.05, 0.07), 0.5), 0.38 * (1 + 0.25 * cloudy), inside)
        _organ(canvas, ellipse((0.5, 0.835), (0.033, 0.031)), _BLOOD * (1 + 0.04 * cloudy))
        _organ(canvas, ellipse((0.4, 0.77), (0.03, 0.022), 0.5), 0.7 * _BLOOD)

    def _ventricles(self, canvas: Canvas, cavity: Raster, depth: float, cloudy: Raster) -> None:
        """Paint the heart in its fat and pericardium."""
        taper = 1 - 0.65 * depth**2.2
        inner = self._cavity * taper
        wall = self._thickness * (1 - 0.25 * depth)
        outer = inner + wall
        # The heart rests on the diaphragm, so it sinks as it narrows towards the apex.
        centre = np.array([self._heart, 0.59 + self._diaphragm - 0.03 * depth - outer])
        turn = np.linspace(0, 2 * np.pi, 72, endpoint=False)
        epicardium = ellipse(centre, (outer * 1.03, outer * 0.97), 0.6, 72)
        width = self._right_width * (1 - depth**1.6)
        right = self._beside(
            centre,
            outer,
            [
                *[(0.2, -0.96), (0.8 + 0.2 * width, -1.0), (1 + 0.65 * width, -0.6), (1 + width, 0.05)],
                *[(1 + 0.7 * width, 0.65), (0.75 + 0.3 * width, 0.98), (0.2, 0.95), (0, 0)],
            ],
        )

        fat = self._epicardial_fat
        # Fat fills the angles that the heart leaves in front, towards the breast bone, and on the diaphragm.
        far, base = 1.3 + width, (self._cavity + self._thickness) / outer
        pad = [(0.3, -0.9), (0.9, -1.3), (far, -2 * base), (far, -0.6), (far + 0.1, 0.3), (far + 0.5, 1.2), (0.4, 1.2), (0, 0)]
        _organ(canvas, self._beside(centre, outer, pad), 0.55 * _FAT * (1 + 0.25 * cloudy), cavity)
        canvas.paint(offset(right, fat + 0.012), _INK)
        canvas.paint(offset(epicardium, 0.013), _INK)
        canvas.paint(offset(right, fat + 0.008), 0.75 * _FAT)
        canvas.paint(offset(epicardium, 0.008), 0.65 * _FAT)
        canvas.paint(offset(right, 0.007), 0.7 * _HEART)
        canvas.paint(right, 0.95 * _BLOOD * (1 + 0.07 * cloudy), RIGHT_CAVITY)
        band = self._beside(centre, outer, [(0.95, 0.3), (1 + 0.4 * width, 0.45), (1 + 0.8 * width, 0.5)], closed=False)
        canvas.paint(stroke(band, 0.009 * min(1, 2 * depth)), 0.6 * _HEART + 0.3 * _BLOOD)

        canvas.paint(offset(epicardium, 0.003), _INK)
        canvas.paint(epicardium, _HEART * (1 + 0.06 * cloudy), MYOCARDIUM)
        waves = np.sin(np.outer(turn, [2, 3, 7, 10, 13]) + self._trabeculae + 2 * depth)
        rough = inner * waves @ np.array([0.03, 0.02, 0.02, 0.02, 0.015]) * (0.5 + depth)
        endocardium = offset(ellipse(centre, (inner * 1.03, inner * 0.97), 0.6, 72), rough)
        canvas.paint(endocardium, _BLOOD * (1 + 0.06 * cloudy), LEFT_CAVITY)
        muscle = inner * 0.27 * np.exp(-(((depth - 0.5) / 0.28) ** 4))
        for angle in (2.0, -2.1):
            place = self._beside(centre, inner, [(0.68 * np.cos(angle), 0.68 * np.sin(angle))], closed=False)[0]
            canvas.paint(ellipse(place, (1.25 * muscle, 0.85 * muscle), self._towards_right + angle, 24), 1.2 * _HEART)

    def _beside(self, centre: Points, radius: float, knots: list[tuple[float, float]], closed: bool = True) -> Points:
        """Draw a curve through knots relative to the left ventricle, x pointing to the right ventricle."""
        cos, sin = np.cos(self._towards_right), np.sin(self._towards_right)
        x, y = np.array(knots).T * radius
        # The mirror keeps "up" in the knots towards the front of the chest.
        turned = centre + np.stack([x * cos + y * sin, x * sin - y * cos], axis=1)
        return curve(turned, closed) if len(turned) > 1 else turned


def _organ(canvas: Canvas, outline: Points, tissue: float | Raster, within: Raster | None = None) -> Raster:
    """Paint an organ with a dark border line and return its mask."""
    limit = np.float32(1) if within is None else within
    canvas.paint(limit * canvas.mask(offset(outline, 0.004)), _INK)
    return canvas.paint(limit * canvas.mask(offset(outline, -0.002)), tissue)
