"""The figures of physicists against the numbers that they show."""

import hashlib

import numpy as np
import pytest
import torch

from helpers import coil_maps, seeded, smooth_images
from promask import InputError, Pattern
from promask.evaluation.noise import measure_noise
from promask.export.mask_file import ExportedMask
from promask.figures.layout import MASK, SPREAD, save_as_both
from promask.figures.physics import density_figure, noise_figure, point_spread_figure
from promask.recon.cg_sense import CgSense
from promask.types import Sample

VOLUME = Pattern((6, 20, 16), (1, 2), directions=("kx", "ky", "kz"), readout=0)
LINES = Pattern((20, 24), (1,), directions=("kx", "ky"), readout=0)


def volume_mask():
    units = (torch.rand(20, 16, generator=seeded()) < 0.3) | VOLUME.centre(4)
    return ExportedMask.of_pattern(VOLUME.expand(units), VOLUME), units.numpy()


def line_mask():
    units = (torch.arange(24) % 4 == 0) | LINES.centre(6)
    return ExportedMask.of_pattern(LINES.expand(units), LINES), units.numpy()


def pictures(figure, colours):
    return [axes for axes in figure.axes if axes.images and axes.images[0].get_cmap().name == colours]


def test_the_density_of_a_volume_is_that_of_its_phase_encodes():
    mask, units = volume_mask()
    figure = density_figure({"ours": mask})
    (axes,) = pictures(figure, MASK)
    assert np.array_equal(np.ma.getdata(axes.images[0].get_array()), units)
    assert axes.get_ylabel() == "ky"
    assert axes.get_xlabel().splitlines()[0] == "kz"
    assert "ACS 4 x 4" in axes.get_xlabel()
    block, ellipse = axes.patches
    assert block.get_xy() == (16 // 2 - 2 - 0.5, 20 // 2 - 2 - 0.5)
    assert (block.get_width(), block.get_height()) == (4, 4)
    assert (ellipse.width, ellipse.height) == (16, 20)
    above, beside = axes.child_axes
    assert (above.get_ylabel(), beside.get_title()) == ("per kz", "per ky")
    tops = {point[1] for point in above.collections[0].get_paths()[0].vertices}
    assert max(tops) == units.sum(0).max()
    assert [bar.get_width() for bar in beside.patches] == units.sum(1).tolist()


def test_the_density_of_lines():
    mask, units = line_mask()
    figure = density_figure({"lines": mask})
    (axes,) = pictures(figure, MASK)
    assert np.array_equal(np.ma.getdata(axes.images[0].get_array()), np.broadcast_to(units, (20, 24)))
    (block,) = axes.patches
    assert (block.get_width(), block.get_height()) == (6, 20)
    assert figure.axes[1].get_xlabel().startswith("|ky|")
    assert "ellipse" not in axes.get_xlabel()


def test_point_spread_functions():
    volume, units = volume_mask()
    lines, _ = line_mask()
    figure = point_spread_figure({"volume": volume, "lines": lines}, voxel=(1.0, 0.5, 2.0))
    (axes,) = pictures(figure, SPREAD)
    transformed = np.abs(np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(units)))) / units.sum()
    decibels = 20 * np.log10(np.maximum(transformed, 1e-3))
    shown = np.ma.getdata(axes.images[0].get_array())
    assert np.allclose(np.sort(shown.ravel()), np.sort(decibels.ravel()), atol=1e-3)
    assert shown[10, 8] == pytest.approx(0, abs=1e-5)
    assert (axes.get_ylabel(), axes.get_xlabel().splitlines()[0]) == ("y", "z")
    titles = [each.get_title() for each in figure.axes]
    assert any(title.startswith("z: width") and title.endswith("mm") for title in titles)
    profile = next(each for each in figure.axes if each.get_title().startswith("y: width")).lines[1]
    x, y = profile.get_data()
    at = int(np.argmin(np.abs(x - 1.5)))
    k = np.arange(20) - 10
    wanted = abs((units.sum(1) * np.exp(2j * np.pi * k * x[at] / 20)).sum()) / units.sum()
    assert y[at] == pytest.approx(wanted, abs=1e-6)


def test_noise_maps_share_a_scale(tmp_path):
    maps = coil_maps(4, (12, 10))[0].to(torch.complex64)
    image = (1 + 0.2 * smooth_images(1, 1, (12, 10))[0]).to(torch.complex64)
    sample = Sample(maps * image, None, "a", "a", maps=maps)
    lattice = (torch.arange(10) % 2 == 0).expand(12, 10)
    found = measure_noise(sample, lattice, CgSense(), 2.0, 4)
    other = measure_noise(sample, torch.ones(12, 10, dtype=torch.bool), CgSense(), 1.0, 4)
    figure = noise_figure({"lattice": found, "full": other})
    first, second = pictures(figure, SPREAD)
    assert first.images[0].get_clim() == second.images[0].get_clim()
    assert np.allclose(np.ma.getdata(first.images[0].get_array()), found.amplification, equal_nan=True)
    assert "cg-sense, 4 replicas" in first.get_xlabel()
    assert f"mean {found.summary()['amplification']['mean']:.3g}" in first.get_xlabel()
    assert f"SENSE g: mean {float(found.sense.g_factor.mean()):.3g}" in first.get_xlabel()
    digests = set()
    for name in ("a", "b"):
        files = save_as_both(noise_figure({"lattice": found, "full": other}), tmp_path / name, 40)
        digests.add(tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in files))
    assert len(digests) == 1


def test_nothing_to_show():
    for figure in (point_spread_figure, density_figure, noise_figure):
        with pytest.raises(InputError, match="There is no"):
            figure({})
