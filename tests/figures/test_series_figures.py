"""Pictures of series of frames against the numbers that they show."""

import numpy as np
import pytest
import torch
from PIL import Image

from promask import InputError
from promask.data.builtin.cine import cine
from promask.data.reading import Reading
from promask.data.sources import load
from promask.evaluation.evaluate import evaluate
from promask.export.mask_file import ExportedMask
from promask.figures import movie, xt
from promask.figures.images import reconstructions
from promask.figures.layout import MASK, SPREAD
from promask.figures.physics import density_figure, point_spread_figure
from promask.figures.series import reconstruct_series
from promask.sampling.pattern import Pattern

FRAMES, SIZE = 8, 32


@pytest.fixture(scope="module")
def hearts():
    made = cine(subjects=2, frames=FRAMES, size=SIZE)
    return load(made.image, Reading(axes="slice frame y x"))


@pytest.fixture(scope="module")
def lattice():
    lines = (torch.arange(SIZE) + torch.arange(FRAMES)[:, None]) % 4 == 0
    pattern = Pattern((FRAMES, SIZE, SIZE), (0, 1), directions=("frame", "ky", "kx"), indexed="frame")
    return ExportedMask.of_pattern(pattern.expand(lines), pattern)


def pictures(figure, colours):
    return [axes for axes in figure.axes if axes.images and axes.images[0].get_cmap().name == colours]


def test_profiles_go_through_what_moves(hearts, lattice):
    series = reconstruct_series({"lattice": lattice.mask}, hearts, 1)
    target = hearts[1].image[0].abs()
    deviations = target.std(0, correction=0)
    assert torch.allclose(series.target, target)
    assert deviations[:, series.column].max() > 0.3 * deviations.max()
    figure = xt({"lattice": lattice.mask}, hearts, 1)
    frame, profile = [axes for axes in figure.axes if axes.images][:2]
    assert np.allclose(frame.images[0].get_array(), target[series.frame])
    assert np.allclose(profile.images[0].get_array(), target[:, :, series.column].T)  # time runs to the right
    (curve,) = [line for axes in figure.axes for line in axes.lines if line.get_label() == "lattice"]
    measured = evaluate(lattice.mask, hearts, "all").temporal.over_time[1]
    assert curve.get_ydata() == pytest.approx(measured, rel=1e-5)


def test_slices_have_no_profiles_over_time():
    with pytest.raises(InputError, match="no frames"):
        xt({"all": torch.ones(16, 16, dtype=torch.bool)}, load(torch.rand(2, 16, 16)))


@pytest.mark.parametrize("ending", ["gif", "webp"])
def test_a_movie_has_all_frames(hearts, lattice, tmp_path, ending):
    path = movie({"lattice": lattice.mask}, hearts, tmp_path / f"movie.{ending}", resolution=30)
    with Image.open(path) as film:
        assert film.n_frames == FRAMES
        film.seek(3)
        film.load()
        assert film.info["duration"] > 20
    assert movie({"lattice": lattice.mask}, hearts, tmp_path / "film", resolution=30).suffix == ".gif"
    with pytest.raises(InputError, match=r"not as \.mp4"):
        movie({"lattice": lattice.mask}, hearts, tmp_path / "film.mp4")


def test_masks_are_shown_with_frames_downwards(lattice, hearts):
    lines = lattice.mask[:, :, 0].numpy()
    figure = density_figure({"lattice": lattice})
    (axes,) = pictures(figure, MASK)
    assert np.array_equal(np.ma.getdata(axes.images[0].get_array()), lines)
    assert (axes.get_ylabel(), axes.get_xlabel().splitlines()[0]) == ("frame", "ky")
    above, beside = axes.child_axes
    assert (above.get_ylabel(), beside.get_title()) == ("per ky", "per frame")
    assert max(point[1] for point in above.collections[0].get_paths()[0].vertices) == lines.sum(0).max()
    shown = reconstructions({"lattice": lattice.mask}, hearts).axes[-2].images[0].get_array()
    assert shown.shape == lines.shape


def test_the_point_spread_is_in_x_f_space(lattice):
    (axes,) = pictures(point_spread_figure({"lattice": lattice}), SPREAD)
    decibels = np.asarray(axes.images[0].get_array())
    assert axes.get_ylabel() == "temporal frequency"
    places = np.argwhere(decibels > -1)
    wanted = np.abs(np.fft.fftshift(np.fft.ifftn(lattice.mask[:, :, 0].numpy())))
    assert np.array_equal(places, np.argwhere(wanted > 0.5 * wanted.max()))
    assert len(places) == 4


def test_bare_masks_beside_a_series_have_its_axes(lattice):
    """An array does not tell that its first axis counts frames: alone, it is taken for a volume."""
    bare = lattice.mask.clone()
    (alone,) = pictures(point_spread_figure({"bare": bare}), SPREAD)
    assert alone.get_ylabel() == "axis 0"
    beside = pictures(point_spread_figure({"lattice": lattice, "bare": bare}), SPREAD)
    assert [axes.get_ylabel() for axes in beside] == ["temporal frequency"] * 2
    known, taken = (np.asarray(axes.images[0].get_array()) for axes in beside)
    assert np.array_equal(known, taken)
    other = pictures(point_spread_figure({"lattice": lattice, "other": bare[:4]}), SPREAD)
    assert other[1].get_ylabel() == "axis 0"
