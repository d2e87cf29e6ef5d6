"""Pictures of spokes and interleaves, against the angles that they show."""

import math

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from promask import learn
from promask.data.reading import Reading
from promask.data.sources import load
from promask.evaluation.rotations import angular_density
from promask.export.mask_file import ExportedMask
from promask.figures.comparison import picture_grid
from promask.figures.images import reconstructions
from promask.figures.layout import image_axes, plane_note, save_as_both
from promask.figures.learning import film, histograms, overview
from promask.figures.masks import probabilities
from promask.figures.physics import density_figure, point_spread_figure
from promask.figures.rotations import draw_kspace, draw_rows
from promask.recon.gridding import Gridding
from promask.sampling.angles import AngularDensity
from promask.sampling.pattern import Pattern
from promask.types import Geometry

SPOKES = Pattern.on((16, 16), Geometry(), "radial")
SPIRALS = Pattern.on((16, 16), Geometry(), "spiral")
FRAMES = Pattern.on((5, 16, 16), Geometry().series("frame", 5), "kt-radial")
STACK = Pattern.on((4, 16, 16), Geometry(), "stack-of-stars")


def exported(pattern, count):
    return ExportedMask.of_pattern(pattern.expand(AngularDensity(turn=0.5).place(pattern, count)), pattern)


def drawn():
    return Figure().add_subplot()


@pytest.fixture(scope="module")
def spokes():
    """A run of few spokes, of six shapes, and its data."""
    rows, columns = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
    images = torch.stack([(rows.square() + (1 + n) * columns.square() < 0.6).float() for n in range(6)])
    data = load((0.1 + images).numpy(), Reading(trajectory="radial"))
    return learn(data, pattern="radial", spokes=5, steps=3), data


def test_acquired_spokes_are_lines_at_their_angles():
    units = torch.zeros(96)
    units[[0, 16, 72]] = torch.tensor([1.0, 0.5, 0.25])
    axes = drawn()
    draw_kspace(axes, units, SPOKES.trajectory)
    acquired, candidates = axes.collections
    angles = {}
    for (start, end), value in zip(acquired.get_segments(), acquired.get_array(), strict=True):
        along = end - start
        assert np.hypot(*along) == pytest.approx(1, abs=0.05), "from edge to edge"
        angles[round(math.degrees(math.atan2(along[1], along[0])) % 180)] = value
    assert angles == {0: 1, 30: 0.5, 135: 0.25}
    assert len(candidates.get_segments()) == 2 * 96, "both ends of each candidate"
    assert axes.yaxis_inverted(), "ky downwards, as in pictures of k-space"


def test_interleaves_are_curves():
    axes = drawn()
    draw_kspace(axes, torch.ones(SPIRALS.unit_shape), SPIRALS.trajectory)
    segments = axes.collections[0].get_segments()
    assert len(segments) == SPIRALS.trajectory.candidates
    assert len(segments[0]) > 10
    assert np.hypot(*segments[0][0]) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("pattern", "rows"), [(FRAMES, 5), (STACK, 4)], ids=["frames", "stack"])
def test_rows_have_marks_at_their_angles(pattern, rows):
    units = AngularDensity(turn=0.5).place(pattern, 4 * rows)
    axes = drawn()
    by_row = units if pattern.varies else units.T
    draw_rows(axes, by_row, pattern.trajectory)
    marks = {(round(start[1] + 0.4), start[0]) for start, _ in axes.collections[0].get_segments()}
    step = 180 / pattern.trajectory.candidates
    assert marks == {(row, place * step) for row, place in by_row.nonzero().tolist()}
    assert axes.get_ylim() == (rows - 0.5, -0.5)


@pytest.mark.parametrize(
    ("pattern", "directions"), [(SPOKES, 2), (SPIRALS, 2), (FRAMES, 2), (STACK, 3)], ids=lambda each: str(each)[:4]
)
def test_figures_of_physicists(pattern, directions, tmp_path):
    mask = exported(pattern, 8 if pattern.trajectory.kind == "spiral" else 20)
    figure = point_spread_figure({"ours": mask})
    shown = figure.axes[0].images[0].get_array()
    assert shown.shape == (32, 32), "twice the field of view"
    assert float(shown[16, 16]) == pytest.approx(0, abs=1e-5)
    (box,) = figure.axes[0].patches
    assert (box.get_x(), box.get_width()) == (7.5, 16)
    titles = [axes.get_title() for axes in figure.axes[1 : 1 + directions]]
    assert [title[:1] for title in titles] == ["z", "y", "x"][-directions:]
    figure = density_figure({"ours": mask}, torch.linspace(0.5, 1.5, pattern.trajectory.candidates))
    of_angles = figure.axes[1]
    density, *others = (line.get_ydata() for line in of_angles.lines)
    units = pattern.restrict(mask.mask)
    rows = units.T if pattern.encoded else units.reshape(-1, units.shape[-1])
    np.testing.assert_allclose(density[:180], angular_density(rows, torch.arange(180) / 180), atol=1e-4)
    assert others[1][0] == 0.5
    assert "degrees" in figure.axes[0].get_xlabel()
    save_as_both(figure, tmp_path / "density")


def test_figures_of_a_run(spokes):
    run, data = spokes
    pattern = run.distribution.pattern
    figure = film(run, data, frames=3)
    captions = [axes.get_xlabel() for axes in figure.axes]
    assert any("5 spokes\nx5.2" in text for text in captions)
    assert all(text.get_text() != "start" for text in figure.texts), "learning begins with uniform spokes"
    figure = overview(run)
    assert figure.axes[0].get_title() == "5 of 96 spokes\n(a complete scan has 26), x5.2"
    assert len(figure.axes[0].collections[0].get_segments()) == 5
    assert histograms(run).axes
    assert len(probabilities([run]).axes[0].collections[0].get_segments()) == 5
    assert image_axes(pattern) == (-2, -1)
    assert plane_note(pattern) == "ky down, kx across"
    assert plane_note(FRAMES) == "frames down, angles across"
    assert plane_note(STACK) == "kz down, angles across"


def test_masks_stand_beside_images():
    data = load(np.random.default_rng(0).random((2, 16, 16), np.float32), Reading(trajectory="radial"))
    masks = {count: SPOKES.expand(AngularDensity().place(SPOKES, count)) for count in (6, 13)}
    of_methods = {"uniform": {26 / count: mask for count, mask in masks.items()}}
    figure = picture_grid(of_methods, data, 0, recon=Gridding())
    names = [text.get_text() for text in figure.texts]
    assert names[:2] == ["13 spokes, x2", "6 spokes, x4.333"]
    assert "6 spokes, x4.333" in [axes.get_xlabel() for axes in figure.axes]
    figure = reconstructions({"six": masks[6]}, data, 0, Gridding())
    masks_shown = [axes for axes in figure.axes if axes.get_xlabel() == "6 spokes, x4.333"]
    assert [len(axes.collections[0].get_segments()) for axes in masks_shown] == [6]
