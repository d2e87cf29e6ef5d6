"""The figures of runs and masks, against the numbers and images that they show."""

import hashlib
import math
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib import colormaps
from PIL import Image

import promask
from helpers import seeded, smooth_images
from promask import MaskDistribution, Pattern
from promask.data.sample_sets import ArraySet, Subset
from promask.errors import InputError
from promask.evaluation.images import reconstruct
from promask.figures.images import FACTORS, reconstructions
from promask.figures.layout import (
    ERROR,
    MAGNITUDE,
    MASK,
    PROBABILITY,
    SPREAD,
    figure_files,
    most_detail,
    parse_box,
    save_as_both,
    white,
)
from promask.figures.learning import curves, film, histograms, overview, steps_of_phases, trajectory_steps
from promask.figures.masks import probabilities, variance
from promask.learning.records import DataRecord
from promask.types import Geometry

PADDED = Geometry(extent=((0, 24), (2, 18)))


def images(count=6, size=(24, 20), geometry=Geometry()):
    values = smooth_images(count, 1, size, phase=False).float()
    return ArraySet(values, "smooth", geometry=geometry)


@pytest.fixture(scope="module")
def data():
    return images(geometry=PADDED)


@pytest.fixture(scope="module")
def run(data):
    """A run of two members whose budget falls, on k-space with padding."""
    return promask.learn(data, 4, annealing="cubic", steps=24, patience=0, members=2, batch_size=4, init="uniform")


def shown(axes):
    return np.ma.getdata(axes.images[0].get_array())


def pictures(figure, colours):
    return [axes for axes in figure.axes if axes.images and axes.images[0].get_cmap().name == colours]


def texts(figure):
    return [text.get_text() for text in figure.texts]


def on_grid(run, values):
    return run.distribution.pattern.expand(values).numpy()


def measured(mask, data, index):
    return promask.evaluate(mask, Subset(data, [index]), "all")


def check_layout(figure):
    """Nothing is cut off, and nothing lies on something else."""
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in figure.axes] + [
        text.get_window_extent() for text in figure.texts if text.get_text()
    ]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width + 0.5 for box in boxes)
    assert all(box.y0 >= -0.5 and box.y1 <= figure.bbox.height + 0.5 for box in boxes)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_steps_are_those_of_the_run(run, data):
    found = trajectory_steps(run)
    assert [step.step for step in found] == list(run.trajectory.steps)
    units = 24 * 16
    for step in found:
        budget = promask.sampling.schedules.budget(max(step.step, 1), 24, units, units // 4)
        assert step.allowed == pytest.approx(budget)
        total = float(step.probabilities.sum())
        assert step.units == min(round(total), math.floor(budget + 1e-6))
        chosen = step.probabilities[step.mask]
        assert len(chosen) == step.units
        assert chosen.min() >= step.probabilities[~step.mask & ~run.distribution.pattern.padding()].max()
    assert found[0].units > found[-1].units == units // 4
    assert not any(step.probabilities[:, :2].any() for step in found)


def test_what_is_decided_is_so_from_the_start(data):
    with_centre = promask.learn(data, 4, steps=4, centre=4)
    start = trajectory_steps(with_centre)[0].probabilities
    assert (start[10:14, 8:12] == 1).all()
    assert start[9, 9] < 1


def test_film(run, data):
    figure = film(run, data, index=2, frames=4)
    last = len(run.trajectory.steps) - 1
    chosen = [trajectory_steps(run)[place] for place in (0, round(last / 3), round(2 * last / 3), last)]
    above, below = pictures(figure, MAGNITUDE), pictures(figure, PROBABILITY)
    assert len(above) == 5
    assert len(below) == 4
    for step, image, theta in zip(chosen, above[:4], below, strict=True):
        assert np.array_equal(shown(theta), step.probabilities.numpy())
        assert np.ma.getmaskarray(theta.images[0].get_array())[:, :2].all()
        assert theta.images[0].get_clim() == (0, 1)
        expected, _ = reconstruct(step.mask, data, range(2, 3))
        assert np.array_equal(shown(image), expected[0, 0].numpy())
        quality = measured(step.mask, data, 2)
        assert image.get_xlabel() == f"{quality.psnr[0]:.1f} dB\nSSIM {quality.ssim[0]:.3f}"
        assert theta.get_xlabel() == f"{step.units} samples\nx{384 / step.units:.4g}"
    assert np.array_equal(shown(above[4]), data.images[2, 0].numpy())
    assert len({axes.images[0].get_clim() for axes in above}) == 1
    steps = [f"step {step.step}" for step in chosen[1:]]
    assert texts(figure)[:4] == ["start", *steps]
    assert "The first of 2 members." in texts(figure)
    check_layout(figure)


def test_a_run_without_a_way_has_no_film(run, data):
    old = replace(run, trajectory=None)
    for figure in (film, curves):
        with pytest.raises(InputError, match=r"kept no probabilities of its steps .*: learn it again"):
            figure(old, data)
    with pytest.raises(InputError, match="kept no probabilities"):
        histograms(old)


def test_a_film_says_that_a_plain_mask_was_better(run, data):
    assert "The run ended with the reference mask 'energy', which was better." in texts(
        film(replace(run.with_record(reference="energy"), config=replace(run.config, members=1)), data, 0)
    )


def test_images_that_are_not_there(run, data):
    with pytest.raises(InputError, match="smooth has images 0 to 5 to show, but number 6 was asked for"):
        film(run, data, 6)
    with pytest.raises(
        InputError, match=r"for images of shape \[24, 20\], but those of smooth have shape \[20, 24\]"
    ):
        film(run, images(size=(20, 24)))


def test_histograms(run):
    figure = histograms(run)
    kept = trajectory_steps(run)
    titles = [axes.get_title().split("\n")[0] for axes in figure.axes]
    steps = [step.step for _, step in steps_of_phases(run)]
    # Annealing goes on from 0.1 to 0.9 of 24 steps.
    nearest = [min(run.trajectory.steps, key=lambda step, aim=aim: abs(step - aim)) for aim in (2.4, 12)]
    assert steps == [0, *nearest, 24]
    assert titles == ["start", f"exploration, step {steps[1]}", f"annealing, step {steps[2]}", "end, step 24"]
    by_step = {step.step: step.probabilities[:, 2:18].numpy() for step in kept}
    for axes, step in zip(figure.axes, steps, strict=True):
        theta = by_step[step].astype(float)
        expected, edges = np.histogram(theta, bins=25, range=(0, 1))
        assert [bar.get_height() for bar in axes.patches] == expected.tolist()
        assert np.allclose([bar.get_x() for bar in axes.patches], edges[:-1])
        assert axes.get_yscale() == "log"
        assert axes.get_ylim()[1] >= expected.max()
        undecided = 100 * ((theta > 0.01) & (theta < 0.99)).mean()
        assert axes.get_title().endswith(f"\n{undecided:.3g} % undecided")


def test_histograms_of_a_run_whose_budget_stays(data):
    steady = promask.learn(data, 4, steps=9, patience=0)
    assert [name for name, _ in steps_of_phases(steady)] == ["start", "step 3", "step 6", "end, step 9"]


def test_curves(run, data):
    figure = curves(run, data, images=3, draws=2, seed=5)
    quality, sparsity, loss = figure.axes
    of_modes, of_random = quality.lines[:2]
    kept = trajectory_steps(run)
    some = Subset(data, [0, 2, 5])  # at equal distances, or nearly
    steps, values = of_modes.get_xydata().T
    assert steps.tolist() == list(run.trajectory.steps)
    expected = [promask.evaluate(step.mask, some, "all").summary()["ssim"] for step in kept]
    assert np.allclose(values, expected)
    last = MaskDistribution(kept[-1].probabilities, kept[-1].pattern, kept[-1].units).sample(2, seed=5)
    drawn = [promask.evaluate(mask, some, "all").summary()["ssim"] for mask in last]
    assert of_random.get_ydata()[-1] == pytest.approx(np.mean(drawn))
    allowed, reached = sparsity.lines[:2]
    assert np.allclose(allowed.get_ydata(), np.array(run.history.budget) / 384)
    assert np.allclose(reached.get_ydata(), [float(step.probabilities.mean()) * 20 / 16 for step in kept])
    assert loss.lines[0].get_ydata().tolist() == run.history.loss
    assert [text.get_text() for text in quality.texts] == ["exploration", "constraining", "exploitation"]
    # Lines are told apart in grey, too.
    for axes in (quality, sparsity):
        assert len({line.get_linestyle() for line in axes.lines[:2]}) == 2
        assert len({line.get_marker() for line in axes.lines[:2]}) == 2


def test_curves_without_random_masks(run, data):
    quality = curves(run, data, images=1, draws=0).axes[0]
    assert [text.get_text() for text in quality.get_legend().get_texts()] == ["most probable mask"]


def test_probabilities(data):
    runs = []
    for source in ("here/brain.npz", "knee"):
        for acceleration in (8, 4):
            run = promask.learn(data, acceleration, steps=2)
            runs.append(run.with_record(data=DataRecord(source)))
    examples = {"knee": data.images[3]}
    figure = probabilities(runs, examples)
    assert texts(figure) == ["x4", "x8", "example", "brain.npz", "knee"]
    maps = pictures(figure, PROBABILITY)
    for axes, place in zip(maps, (0, 1, 2, 3), strict=True):
        assert np.array_equal(shown(axes), on_grid(runs[place], runs[place].probabilities))
    columns = [axes.get_position().x0 for axes in maps]
    assert columns[0] == columns[2] > columns[1] == columns[3]
    assert {axes.images[0].get_clim() for axes in maps} == {(0, 1)}
    (example,) = pictures(figure, MAGNITUDE)
    assert np.array_equal(shown(example), data.images[3, 0].numpy())
    assert len(figure.axes) == 4 + 1 + 1
    check_layout(figure)


def test_runs_on_the_same_data_have_rows_of_their_own(data):
    lines = promask.learn(data, 4, pattern="1d", steps=2)
    figure = probabilities([promask.learn(data, 4, steps=2), lines, lines])
    assert texts(figure) == ["x4", "smooth, 2d", "smooth, 1d", "smooth, 1d (2)"]
    expanded = shown(pictures(figure, PROBABILITY)[1])
    assert np.array_equal(expanded, lines.probabilities.expand(24, 20).numpy())


def test_reconstructions(data):
    generator = seeded(3)
    masks = {name: torch.rand(24, 20, generator=generator) < share for name, share in (("a", 0.5), ("b", 0.2))}
    box = parse_box("3:11,5:17")
    figure = reconstructions(masks, data, 4, zoom=box)
    target = data.images[4, 0].numpy()
    grey, errors = pictures(figure, MAGNITUDE), pictures(figure, ERROR)
    windows, row = {}, [text for text in texts(figure) if text.startswith("error x ")]
    factor = int(row[0].removeprefix("error x "))
    assert factor in FACTORS
    assert np.array_equal(shown(grey[0]), target)
    assert np.array_equal(shown(grey[1]), target[3:11, 5:17])
    found = []
    for place, mask in enumerate(masks.values()):
        image, zoomed, of_mask = grey[3 + 3 * place : 6 + 3 * place]
        expected = reconstruct(mask, data, range(4, 5))[0][0, 0].numpy()
        found.append(np.abs(expected - target))
        assert np.array_equal(shown(image), expected)
        assert np.array_equal(shown(zoomed), expected[3:11, 5:17])
        assert np.allclose(shown(errors[place]), 100 * found[-1] / target.max(), rtol=1e-5)
        assert np.array_equal(shown(of_mask), mask.numpy())
        quality = measured(mask, data, 4)
        assert image.get_xlabel() == f"{quality.psnr[0]:.1f} dB\nSSIM {quality.ssim[0]:.3f}"
        assert of_mask.get_xlabel() == f"x{384 / int(mask[:, 2:18].sum()):.4g}"
        corner = image.patches[0].get_xy()
        size = image.patches[0].get_width(), image.patches[0].get_height()
        assert (corner, size) == ((4.5, 2.5), (12, 8))
        windows |= {axes.images[0].get_clim(): None for axes in (image, zoomed, grey[0], grey[1])}
    ((darkest, brightest),) = windows
    assert darkest == 0
    assert len({axes.images[0].get_clim() for axes in errors}) == 1
    assert errors[0].images[0].get_clim() == (0, pytest.approx(100 * brightest / factor / target.max()))
    # The factor is the largest of the table with which nearly all errors are within the window.
    high = np.quantile(np.concatenate([each.ravel() for each in found]), 0.995)
    assert factor == max((each for each in FACTORS if each * high <= brightest), default=1)
    assert texts(figure) == ["image", "zoom", f"error x {factor}", "mask", "fully sampled", "a", "b"]
    check_layout(figure)


def test_reconstructions_of_volumes_show_the_plane_through_the_centre():
    data = images(2, (9, 12, 8))
    mask = torch.rand(9, 12, 8, generator=seeded()) < 0.5
    figure = reconstructions({"one": mask}, data, 1)
    grey = pictures(figure, MAGNITUDE)
    assert np.array_equal(shown(grey[0]), data.images[1, 0, 4].numpy())
    assert np.array_equal(shown(grey[5]), mask[4].numpy())
    check_layout(figure)


def test_the_zoom_is_where_most_detail_is():
    image = torch.zeros(60, 80)
    image[:, :3] = 10  # one strong edge is not much
    image[31:41, 52:62] = torch.rand(10, 10, generator=seeded())
    rows, columns = most_detail(image, 14)
    assert rows.start <= 31
    assert rows.stop >= 41
    assert columns.start <= 52
    assert columns.stop >= 62
    assert (rows.stop - rows.start, columns.stop - columns.start) == (14, 14)


@pytest.mark.parametrize(
    ("text", "message"), [("3:9", "such as 60:110,40:90, but is '3:9'"), ("3:99,0:5", "does not lie in the image")]
)
def test_zooms_that_cannot_be(data, text, message):
    with pytest.raises(InputError, match=message):
        reconstructions({"all": torch.ones(24, 20, dtype=torch.bool)}, data, 0, zoom=parse_box(text))


def test_variance(run, data):
    config = replace(run.config, acceleration=8, members=3)
    fewer = replace(run.distribution, budget=48)
    other = replace(run, config=config, distribution=fewer, variance=2 * run.variance)
    figure = variance([run, other], data, 1, draws=5, seed=2)
    spreads = pictures(figure, SPREAD)
    assert len(spreads) == 4
    for axes, each in zip(spreads, (run, other), strict=False):
        assert np.allclose(shown(axes), on_grid(each, each.variance) ** 0.5)
    for axes, each in zip(spreads[2:], (run, other), strict=True):
        drawn = [reconstruct(mask, data, range(1, 2))[0][0, 0].numpy() for mask in each.sample(5, 2, exact=True)]
        expected = 100 * np.std(drawn, 0, ddof=1) / data.images[1].max().item()
        assert np.allclose(shown(axes), expected, rtol=1e-3, atol=1e-3)
    assert spreads[0].images[0].get_clim() == spreads[1].images[0].get_clim()
    assert spreads[2].images[0].get_clim() == spreads[3].images[0].get_clim()
    grey = pictures(figure, MAGNITUDE)
    quality = [measured(mask, data, 1) for mask in (run.mask, run.sample(5, 2, exact=True)[0])]
    assert [axes.get_xlabel() for axes in grey[:2]] == [
        f"{each.psnr[0]:.1f} dB\nSSIM {each.ssim[0]:.3f}" for each in quality
    ]
    assert np.array_equal(shown(grey[-1]), data.images[1, 0].numpy())
    assert len({axes.images[0].get_clim() for axes in grey}) == 1
    assert texts(figure) == ["x4", "x8", "probabilities", "mode", "random mask", "5 random masks"]
    check_layout(figure)


def test_variance_of_different_images(run, data):
    brighter = ArraySet(100 * data.images.flip(0), "brighter", geometry=PADDED)
    other = run.with_record(data=DataRecord("here/brighter.npz"))
    figure = variance([run, other], [data, brighter], 1, draws=2)
    assert texts(figure)[:2] == ["smooth x4", "brighter.npz x4"]
    assert texts(figure)[2:] == ["probabilities", "mode", "random mask", "2 random masks", "fully sampled"]
    grey = pictures(figure, MAGNITUDE)
    lefts = [round(axes.get_position().x0, 6) for axes in grey]
    columns = [[axes for axes, at in zip(grey, lefts, strict=True) if at == left] for left in sorted(set(lefts))]
    assert [len(column) for column in columns] == [3, 3]
    for column, each in zip(columns, (data, brighter), strict=True):
        top = max(column, key=lambda axes: axes.get_position().y0)
        assert np.array_equal(shown(top), each.images[1, 0].numpy())
        assert {axes.images[0].get_clim() for axes in column} == {(0, white(each.images[1, 0]))}
    assert 1 < columns[1][0].images[0].get_clim()[1] <= 100
    check_layout(figure)


def test_dollars_are_not_mathematics(run, data):
    """Names, losses and data of a user are written as they are; as mathematics, this could not be drawn."""
    name = r"a$\foo$"
    odd = replace(run.with_record(data=DataRecord(name), reference=name), config=replace(run.config, loss=name))
    mask = {name: run.mask}
    made = [
        reconstructions(mask, data, 0),
        probabilities([odd]),
        variance([odd, run], [data, data], 0, draws=2),
        film(odd, data, 0, frames=2),
        histograms(odd),
        curves(odd, data, images=1, draws=0),
        overview(odd),
    ]
    for figure in made:
        figure.draw_without_rendering()
    assert name in texts(made[0])


def test_variance_of_members_alone(run, data):
    figure = variance([run])
    assert len(figure.axes) == 2
    single = promask.learn(data, 4, steps=2)
    with pytest.raises(InputError, match="No run has several members that differ"):
        variance([single])
    assert len(pictures(variance([single, run]), SPREAD)) == 1
    assert len(pictures(variance([single], data, draws=2), SPREAD)) == 1


def titles(figure):
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def test_overview(run):
    figure = overview(run)
    expected = ["Probabilities", "Standard deviation over 2 members", "Mask: 96 of 384 samples, x4"]
    assert titles(figure) == [*expected, "Learning: the loss of each step"]
    theta, _, mask = figure.axes[:3]
    assert np.array_equal(shown(theta), on_grid(run, run.probabilities))
    assert np.array_equal(shown(mask), run.mask.numpy())
    assert mask.get_xlabel() == "grey: padding, never acquired"


def test_overview_of_probabilities_that_are_0_or_1(run):
    decided = replace(
        run.distribution, probabilities=run.distribution.pattern.restrict(run.mask).float(), budget=96
    )
    figure = overview(
        replace(run, distribution=decided, config=replace(run.config, members=1, learner="exchange"))
    )
    assert titles(figure) == ["Mask: 96 of 384 samples, x4", "Learning: the loss of each step"]
    assert figure.axes[0].get_xlabel().startswith("probabilities are 0 or 1 only")


def test_overview_of_a_race(run):
    figure = overview(replace(run, config=replace(run.config, learner="shape-race")))
    assert titles(figure)[-1] == "Learning: the loss of each round"
    curve = next(axes for axes in figure.axes if axes.get_title() == titles(figure)[-1])
    assert curve.get_xlabel() == "round"
    assert curve.lines[0].get_ydata().tolist() == run.history.loss


@pytest.mark.parametrize("name", sorted({ERROR, MAGNITUDE, MASK, PROBABILITY, SPREAD}))
def test_colours_can_be_read_in_grey(name):
    """Lightness grows from end to end: L* of CIELAB, from sRGB."""
    values = colormaps[name](np.linspace(0, 1, 64))[:, :3]
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(np.cbrt(luminance)) > 0).all()


def test_files(run, data, tmp_path):
    files = save_as_both(film(run, data, 0, frames=3), tmp_path / "new" / "film.png", resolution=50)
    assert [path.name for path in files] == ["film.png", "film.svg"]
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"film.png", "film.svg"}
    with Image.open(files[0]) as picture:
        picture.verify()
    with Image.open(files[0]) as picture:
        size = film(run, data, 0, frames=3).get_size_inches()
        assert np.allclose(picture.size, 50 * size, atol=1)
    root = ElementTree.parse(files[1]).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "date" not in files[1].read_text().lower()
    again = save_as_both(film(run, data, 0, frames=3), tmp_path / "again", resolution=50)
    for one, other in zip(files, again, strict=True):
        assert hashlib.sha256(one.read_bytes()).digest() == hashlib.sha256(other.read_bytes()).digest()


def test_names_of_files(tmp_path):
    assert [path.name for path in figure_files(tmp_path / "x.1")] == ["x.1.png", "x.1.svg"]
    with pytest.raises(InputError, match=r"as .png and .svg, not as .pdf: leave out the ending"):
        figure_files(tmp_path / "film.pdf")
    with pytest.raises(InputError, match="is a folder"):
        figure_files(tmp_path)


def test_matplotlib_is_not_imported_before_it_is_needed():
    code = (
        "import sys, promask.figures, promask.cli.figure, promask.figures.comparison, promask.evaluation.tables\n"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_lines_are_expanded(data):
    lines = promask.learn(data, 4, pattern="1d", steps=3)
    below = pictures(film(lines, data, 0, frames=2), PROBABILITY)
    assert np.array_equal(shown(below[-1]), trajectory_steps(lines)[-1].probabilities.expand(24, 20).numpy())
    assert lines.distribution.pattern == Pattern((24, 20), (1,), PADDED.extent)
