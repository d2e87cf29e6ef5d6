import numpy as np
import pytest
from scipy import ndimage

from helpers import assert_global_random_state_is_untouched
from promask.data.builtin.cardiac import LEFT_CAVITY, MYOCARDIUM, RIGHT_CAVITY
from promask.data.builtin.cine import cine, contraction

SUBJECTS, FRAMES, SIZE, NOISE = 4, 20, 96, 0.02


@pytest.fixture(scope="module")
def still():
    """Without noise, so that whatever changes moves."""
    return cine(subjects=SUBJECTS, frames=FRAMES, size=SIZE, noise=0.0)


def areas(made, label):
    return (made.label == label).sum((-2, -1))


def near_the_heart(made):
    """What the heart, its pericardium or their blur ever reach, (series, H, W)."""
    reach = np.ones((1, 13, 13), dtype=bool)
    return ndimage.binary_dilation((made.label > 0).any(1), reach)


def test_shapes():
    made = cine(subjects=2, slices=3, frames=4, size=33)
    assert made.image.shape == made.label.shape == (6, 4, 33, 33)
    assert (made.image.dtype, made.label.dtype) == (np.float32, np.uint8)
    assert made.subject == ["cine-000"] * 3 + ["cine-001"] * 3
    assert cine(subjects=1, frames=1, size=32).image.shape == (1, 1, 32, 32)


def test_seeds_and_subjects():
    few, more = (cine(subjects=count, frames=3, size=48) for count in (2, 3))
    assert (few.image == more.image[:2]).all()
    assert (few.label == more.label[:2]).all()
    assert few.subject == more.subject[:2]
    assert (few.image == cine(subjects=2, frames=3, size=48).image).all()
    assert (few.image != cine(subjects=2, frames=3, size=48, seed=1).image).any()
    assert abs(few.image[0] - few.image[1]).mean() > 0.03, "subjects differ"
    assert_global_random_state_is_untouched(lambda: cine(subjects=1, frames=2, size=32))


def test_every_frame_has_bright_blood_and_dark_muscle(still):
    for image, label in zip(still.image.reshape(-1, SIZE, SIZE), still.label.reshape(-1, SIZE, SIZE), strict=True):
        right, muscle, left = (np.median(image[label == tissue]) for tissue in (1, 2, 3))
        assert min(right, left) > 1.5 * muscle


def test_the_left_ventricle_ejects_half_or_more_of_its_blood_by_end_systole(still):
    cavity = areas(still, LEFT_CAVITY)
    assert (cavity[:, 0] > 0.97 * cavity.max(1)).all(), "the series begin at end-diastole"
    end = cavity.argmin(1) / FRAMES
    assert ((end >= 0.3) & (end <= 0.4)).all()
    ejected = 1 - cavity.min(1) / cavity[:, 0]
    assert ((ejected > 0.45) & (ejected < 0.7)).all()
    assert np.ptp(ejected) > 0.02, "hearts differ"
    right = areas(still, RIGHT_CAVITY)
    assert (right.min(1) < 0.7 * right[:, 0]).all(), "the right ventricle ejects as much"
    assert (abs(right.argmin(1) - cavity.argmin(1)) <= 1).all(), "at the same time"


def test_muscle_keeps_its_area_and_becomes_thicker(still):
    wall, cavity = areas(still, MYOCARDIUM), areas(still, LEFT_CAVITY)
    np.testing.assert_allclose(wall / wall.mean(1, keepdims=True), 1, atol=0.15)
    thickness = np.sqrt((wall + cavity) / np.pi) - np.sqrt(cavity / np.pi)
    thickening = thickness[:, FRAMES * 3 // 8] / thickness[:, 0]
    assert ((thickening > 1.2) & (thickening < 1.8)).all()


def test_the_first_frame_follows_on_the_last(still):
    change = abs(np.roll(still.image, -1, axis=1) - still.image).mean((-2, -1))
    assert (change[:, -1] < change[:, :-1].max(1)).all()
    assert (change > 0).all(), "no two frames are the same"


def test_only_the_heart_moves(still):
    near, spread = near_the_heart(still), still.image.std(1)
    assert (np.ptp(still.image, axis=1)[~near] == 0).all()
    assert near.mean() < 0.2
    heart = (still.label > 0).any(1)
    assert (spread**2)[heart].sum() > 0.75 * (spread**2).sum()


def test_noise_is_new_in_every_frame(still):
    noisy = cine(subjects=SUBJECTS, frames=FRAMES, size=SIZE, noise=NOISE)
    assert (noisy.label == still.label).all()
    bright = (still.image.min(1) > 0.3) & ~near_the_heart(still)
    for image, clean, where in zip(noisy.image, still.image, bright, strict=True):
        sigma = NOISE * clean[clean > 0.1].mean()
        np.testing.assert_allclose(np.median(image.std(0, ddof=1)[where]), sigma, rtol=0.1)
        first, second = (image - clean)[0, where], (image - clean)[1, where]
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.15


def test_phase_is_smooth_and_the_same_in_all_frames():
    settings = {"subjects": 1, "slices": 2, "frames": 3, "size": 48}
    real, complex_ = cine(**settings), cine(**settings, phase=True)
    assert complex_.image.dtype == np.complex64
    np.testing.assert_allclose(abs(complex_.image), real.image, atol=1e-5)
    image = cine(**settings, noise=0.0, phase=True).image
    bright = abs(image).min(1) > 0.1
    turns = np.angle(image * image[:, :1].conj())
    assert abs(turns[np.broadcast_to(bright[:, None], turns.shape)]).max() < 1e-5
    assert abs(np.angle(image[0] * image[1].conj())).max() > 0.1, "slices have phases of their own"
    steps = np.angle(image[:, :, 1:] * image[:, :, :-1].conj())[abs(image[:, :, 1:]) > 0.2]
    assert 0 < np.median(abs(steps)) < 0.3


@pytest.mark.parametrize(("systole", "early"), [(0.35, 0.65), (0.38, 0.8)])
def test_ejection_is_quick_and_filling_comes_in_two_waves(systole, early):
    time = np.linspace(0, 1, 1001)
    gone = np.array([contraction(at, systole, early) for at in time])
    np.testing.assert_allclose(gone[[0, -1]], 0, atol=1e-12)
    assert gone.max() == pytest.approx(1)
    flow = np.diff(gone)
    assert (flow[time[:-1] < systole] >= 0).all()
    assert (flow[time[:-1] > systole] <= 1e-12).all()
    half = np.flatnonzero(gone >= 0.5)[[0, -1]] / 1000
    assert half[0] < 1 - half[1], "it empties sooner than it fills"
    inflow = np.interp(time, time[1:], -flow)
    first, between, second = (
        inflow[(time > begin) & (time < end)] for begin, end in ((systole, 0.64), (0.66, 0.79), (0.81, 0.97))
    )
    assert min(first.max(), second.max()) > 4 * between.max(), "two waves with a rest in between"
    assert between.min() > 0, "in which it still fills"
    assert first.max() > second.max()
