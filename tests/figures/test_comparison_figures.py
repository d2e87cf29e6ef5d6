"""The figures of a comparison, against the numbers and images that they show."""

import math

import numpy as np
import pytest
import torch
from comparisons import compared, row, tiny_comparison

from helpers import smooth_images
from promask.data.sample_sets import ArraySet
from promask.evaluation.images import reconstruct
from promask.figures.comparison import picture_grid, quality_over_acceleration
from promask.losses import metrics
from promask.types import Geometry


@pytest.fixture
def tiny():
    return tiny_comparison()


def test_lines_and_bands_are_means_and_deviations(tiny):
    figure = quality_over_acceleration(tiny)
    assert [axes.get_title() for axes in figure.axes] == ["PSNR (dB) ↑", "SSIM ↑", "NMSE ↓"]
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "linear", "log"]
    axes = figure.axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines) == ["lines_1", "energy", "promask"]
    assert lines["promask"].get_xydata().tolist() == [[4, 31], [8, 25]]
    assert lines["lines_1"].get_xydata().tolist() == [[4.1, 22]]
    assert lines["lines_1"].get_linestyle() == "--"
    assert lines["promask"].get_linestyle() == "-"
    assert all(
        lines["promask"].get_zorder() > line.get_zorder()
        and lines["promask"].get_linewidth() > line.get_linewidth()
        for name, line in lines.items()
        if name != "promask"
    )
    band = axes.collections[-1].get_paths()[0].vertices
    deviation = math.sqrt(8)
    for corner in ([4, 31 - deviation], [4, 31 + deviation], [8, 25]):
        assert np.isclose(band, corner).all(1).any()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x4", "x8"]
    assert axes.get_xticks().tolist() == [4, 8]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["lines_1", "energy", "promask"]


def test_twenty_methods_can_be_told_apart():
    names = [f"method{number}" for number in range(17)] + ["promask:1d", "promask:ssim", "promask"]
    figure = quality_over_acceleration(compared(*(row(name, [[30]]) for name in names)))
    lines = figure.axes[0].lines
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 20
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert legend.y0 >= 0
    assert legend.y1 <= figure.bbox.height
    assert legend.x0 >= max(axes.get_window_extent().x1 for axes in figure.axes)


def test_one_acceleration_shows_points_and_their_deviation(tiny):
    axes = quality_over_acceleration(compared(*tiny.at(4.0))).axes[0]
    assert all(line.get_marker() != "None" for line in axes.lines)
    assert axes.get_xlim() == (2, 8)
    bar = axes.collections[-1].get_segments()[0]
    assert np.allclose(bar, [[4, 31 - math.sqrt(8)], [4, 31 + math.sqrt(8)]])


def random_masks(shape, names, accelerations):
    generator = torch.Generator().manual_seed(0)
    return {name: {x: torch.rand(shape, generator=generator) < 1 / x for x in accelerations} for name in names}


def shown_in(figure):
    return [(np.asarray(axes.images[0].get_array()), axes.get_xlabel()) for axes in figure.axes]


def test_grid_of_pictures():
    images = smooth_images(2, 2, (20, 16)).to(torch.complex64)
    data = ArraySet(images, "test", geometry=Geometry(region=(16, 16)))
    masks = random_masks((20, 16), ["energy", "promask"], [2.0, 4.0])
    del masks["energy"][4.0]
    figure = picture_grid(masks, data, 1)
    shown = shown_in(figure)
    assert len(shown) == 2 * (2 + 3)
    target = images[1].abs()[:, 2:18]
    assert np.allclose(shown[0][0], target[0].numpy())
    assert shown[0][1] == "fully sampled"
    image, _ = reconstruct(masks["promask"][4.0], data, range(1, 2))
    assert np.array_equal(shown[-2][0], image[0, 0].numpy())
    quality = [float(metric(image, target[None])) for metric in (metrics.psnr, metrics.ssim)]
    assert shown[-2][1] == f"{quality[0]:.1f} dB   SSIM {quality[1]:.3f}"
    assert np.array_equal(shown[-1][0], masks["promask"][4.0].numpy())
    assert shown[-1][1] == f"x{320 / int(masks['promask'][4.0].sum()):.4g}"
    windows = {axes.images[0].get_clim() for axes in figure.axes[::2]}
    assert len(windows) == 1
    assert windows.pop()[0] == 0
    assert [text.get_text() for text in figure.texts] == ["x2", "x4", "energy", "promask"]


def test_grid_of_pictures_does_not_overlap():
    data = ArraySet(smooth_images(1, 1, (12, 30)).to(torch.complex64), "test")
    figure = picture_grid(random_masks((12, 30), list("abc"), [2.0, 4.0, 8.0]), data, 0)
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    assert all(box.y0 >= 0 and box.y1 <= figure.bbox.height for box in boxes)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_grid_of_volumes_shows_the_middle_plane():
    images = smooth_images(1, 1, (5, 8, 9)).to(torch.complex64)
    masks = random_masks((5, 8, 9), ["promask"], [2.0])
    shown = shown_in(picture_grid(masks, ArraySet(images, "test"), 0))
    assert np.allclose(shown[0][0], images[0, 0, 2].abs().numpy())
    assert np.array_equal(shown[3][0], masks["promask"][2.0][2].numpy())
    assert shown[2][1].endswith(" dB")  # too few planes for SSIM
