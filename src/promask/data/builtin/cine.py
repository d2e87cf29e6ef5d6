"""Procedural short-axis cine MRI of a beating heart."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from promask.data.builtin.cardiac import Chest, Moment
from promask.data.builtin.phantom import Anatomy, Labels, Points, Raster, acquire, texture


def cine(
    subjects: int = 12,
    slices: int = 1,
    frames: int = 20,
    size: int = 96,
    seed: int = 0,
    noise: float = 0.01,
    phase: bool = False,
) -> Anatomy:
    """Draw beating hearts in short-axis slices, each as a series of frames.

    The frames are evenly spaced over one heartbeat: the first shows end-diastole, end-systole comes after 35 to
    40 % of the beat, and the first frame would follow on the last. From one to the other, the left ventricular
    cavity loses 45 to 70 % of its area, and the wall becomes thicker. Chest and abdomen stand still. A subject
    depends on the seed and its number, not on how many subjects are made.

    >>> cine(subjects=2, slices=3, frames=4, size=64).image.shape
    (6, 4, 64, 64)

    Args:
        subjects: Number of subjects.
        slices: Slices of each subject, from base to apex; a single one is in the middle.
        frames: Frames of each series.
        size: Rows and columns of each frame.
        seed: Seed of all random numbers.
        noise: Standard deviation of the noise, relative to the typical tissue intensity.
        phase: Whether images are complex, with a smooth phase that is the same in all frames of a slice.

    Returns:
        `subjects * slices` series of (frames, size, size) images, and labels with 0 background, 1 right
        ventricular cavity, 2 myocardium and 3 left ventricular cavity for each frame.
    """
    return acquire("cine", partial(_BeatingHeart, frames=frames), (subjects, slices, size), seed, noise, phase)


class _Series(NamedTuple):
    """A slice at all moments of a heartbeat, (T, H, W)."""

    image: Raster
    label: Labels


class _BeatingHeart:
    """The chest of one subject, and how the heart in it beats."""

    def __init__(self, rng: np.random.Generator, frames: int) -> None:
        """Draw the subject's build and motion."""
        self._chest = Chest(rng)
        self.coils: Points = self._chest.coils
        self._times = np.arange(frames) / frames
        # `cardiac` draws a heart somewhere in the beat; at end-diastole the cavity is larger and the wall thinner.
        self._filled, self._ejected = rng.uniform(1.2, 1.4), rng.uniform(0.48, 0.67)
        self._right_filled, self._right_narrowing = rng.uniform(1.0, 1.1), rng.uniform(0.25, 0.4)
        self._systole, self._early = rng.uniform(0.35, 0.38), rng.uniform(0.65, 0.8)
        self._shift, self._rocking = rng.normal((-0.006, -0.004), 0.004, 2), rng.normal(0, 0.003, 2)
        self._turn, self._twist = rng.normal(0.05, 0.02), rng.normal(0.25, 0.05)

    def slice(self, rng: np.random.Generator, size: int, depth: float) -> _Series:
        """Draw the slice at a depth from 0, base, to 1, apex, at all moments."""
        still, cloudy = self._chest.surroundings(rng, size, depth)
        swirl = texture(rng, size, 0.03, slope=3)
        drawn = []
        for time in self._times:
            canvas, turn = still.copy(), 2 * np.pi * time
            # Inside the blood the pattern of flow changes all the time, and comes back after one beat.
            flow = np.float32(np.cos(turn)) * cloudy + np.float32(np.sin(turn)) * swirl
            self._chest.heart(canvas, depth, cloudy, flow, self._moment(float(time), depth))
            drawn.append(canvas)
        return _Series(np.stack([canvas.image for canvas in drawn]), np.stack([canvas.label for canvas in drawn]))

    def _moment(self, time: float, depth: float) -> Moment:
        """Say how the heart is changed at a time from 0 to 1, one beat, in the slice at a depth."""
        gone = contraction(time, self._systole, self._early)
        shift = gone * self._shift + np.sin(2 * np.pi * time) * self._rocking
        return Moment(
            area=self._filled * (1 - self._ejected * gone),
            width=self._right_filled * (1 - self._right_narrowing * gone),
            # The apex turns further than the base, and the other way: the heart wrings itself out.
            turn=gone * (self._turn + self._twist * (depth - 0.4)),
            shift=(float(shift[0]), float(shift[1])),
            # Fresh blood, which has not been excited before, is brighter; it comes while the ventricle fills.
            blood=1.02 - 0.05 * gone,
        )


def contraction(time: float, systole: float, early: float) -> float:
    """Say which part of the stroke volume has left the ventricle.

    The ventricle ejects its blood quickly, is closed for a moment, and fills in two waves, when it relaxes and
    when the atrium contracts. In between it fills slowly.

    Args:
        time: From 0 to 1, one heartbeat; both are end-diastole.
        systole: When the ejection ends.
        early: Share of the first wave in what the two waves bring.

    Returns:
        From 0, at end-diastole, to 1, at end-systole.
    """
    opens, full = systole + 0.04, 0.98
    ejection = _ramp((time - 0.02) / (systole - 0.02))
    first, second = _ramp((time - opens) / 0.22), _ramp((time - 0.8) / (full - 0.8))
    slow = min(1.0, max(0.0, (time - opens) / (full - opens)))
    return ejection - 0.9 * (early * first + (1 - early) * second) - 0.1 * slow


def _ramp(at: float) -> float:
    """Rise smoothly from 0 at 0 to 1 at 1."""
    at = min(1.0, max(0.0, at))
    return at * at * (3 - 2 * at)
