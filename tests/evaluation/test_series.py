"""Series of frames: quality of all, of what moves, and of what changes, against NumPy and scikit-image."""

import numpy as np
import pytest
import torch
from skimage.metrics import _structural_similarity, structural_similarity

import promask
from promask.cli.show import columns_of, frozen_row, metrics_table
from promask.data.reading import Reading
from promask.data.sources import load
from promask.evaluation.cells import Comparison, Conditions, Scores
from promask.evaluation.density import sampling_density
from promask.evaluation.evaluate import evaluate
from promask.evaluation.matching import load_for_mask
from promask.evaluation.noise import measure_noise
from promask.evaluation.physics import pattern_of
from promask.evaluation.point_spread import point_spread
from promask.evaluation.tables import markdown, records
from promask.evaluation.temporal import moving_region
from promask.figures.comparison import quality_over_acceleration
from promask.learning.records import Quality
from promask.operators.encoding import combine_coils
from promask.operators.fourier import space_axes, to_image
from promask.sampling.pattern import Pattern
from promask.types import Geometry

FRAMES, SIZE = 6, 24


@pytest.fixture(scope="module")
def beating():
    """Three series of a disc that grows and shrinks on a still background, (slice, frame, y, x)."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIZE, :SIZE] - SIZE // 2
    radius = 5 + 2 * np.sin(2 * np.pi * np.arange(FRAMES) / FRAMES)
    disc = 1 / (1 + np.exp(2 * (np.hypot(rows, columns) - radius[:, None, None])))
    still = rng.random((3, 1, SIZE, SIZE)) * 0.2 + 0.3 * (np.abs(rows) < 9)
    return (still + disc * np.array([1.0, 0.8, 1.3])[:, None, None, None]).astype(np.float32)


@pytest.fixture(scope="module")
def mask():
    """Every frame has its own lines, and all have the central ones."""
    lines = torch.rand(FRAMES, SIZE, 1, generator=torch.Generator().manual_seed(1)) < 0.4
    lines[:, SIZE // 2 - 2 : SIZE // 2 + 2] = True
    return lines.expand(FRAMES, SIZE, SIZE).clone()


def zero_filled(series, mask):
    kspace = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(series, axes=(-2, -1))), axes=(-2, -1))
    kspace = kspace * mask
    return np.abs(np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(kspace, axes=(-2, -1))), axes=(-2, -1)))


def by_hand(image, target, moving):
    """PSNR, PSNR within what moves, NMSE, NMSE of differences, and PSNR of each frame, for a peak of 1."""
    error = (image - target) ** 2
    change = np.diff(target, axis=0)
    return {
        "psnr": -10 * np.log10(error.mean()),
        "psnr_moving": -10 * np.log10(error[:, moving].mean()),
        "nmse": error.sum() / (target**2).sum(),
        "nmse_differences": ((np.diff(image, axis=0) - change) ** 2).sum() / (change**2).sum(),
        "over_time": -10 * np.log10(error.mean((1, 2))),
    }


def region(series):
    deviation = series.astype(np.float64).std(0)
    return deviation > 0.3 * np.quantile(deviation, 0.999)


def test_series_in_the_papers_convention(beating, mask, monkeypatch):
    blur = _structural_similarity.gaussian  # with a window of 7 pixels rather than 9
    monkeypatch.setattr(
        _structural_similarity, "gaussian", lambda image, **of: blur(image, **of | {"truncate": 3.0})
    )
    found = evaluate(mask, beating, "all", axes="slice frame y x")
    assert found.of == "series"
    assert found.temporal is not None
    for number, series in enumerate(beating.astype(np.float64)):
        low, high = series.min(), series.max()
        target = (series - low) / (high - low)
        image = ((zero_filled(series, mask.numpy()) - low) / (high - low)).clip(0, 1)
        wanted = by_hand(image, target, region(series))
        for name in ("psnr", "psnr_moving", "nmse", "nmse_differences"):
            assert found.values(name)[number] == pytest.approx(wanted[name], rel=1e-4)
        assert found.temporal.over_time[number] == pytest.approx(wanted["over_time"], rel=1e-4)
        window = {"gaussian_weights": True, "sigma": 1.0, "use_sample_covariance": False}
        ssim = [
            structural_similarity(*pair, data_range=1.0, full=True, **window)[1][3:-3, 3:-3].mean()
            for pair in zip(image, target, strict=True)
        ]
        assert found.ssim[number] == pytest.approx(np.mean(ssim), abs=1e-4)


def test_series_in_the_convention_of_fastmri(beating, mask):
    found = evaluate(mask, beating, "all", convention="fastmri", axes="slice frame y x")
    for number, series in enumerate(beating.astype(np.float64)):
        target, image = (each / series.max() for each in (series, zero_filled(series, mask.numpy())))
        wanted = by_hand(image, target, region(series))
        for name in ("psnr", "psnr_moving", "nmse", "nmse_differences"):
            assert found.values(name)[number] == pytest.approx(wanted[name], rel=1e-4)
        ssim = [structural_similarity(*pair, data_range=1.0) for pair in zip(image, target, strict=True)]
        assert found.ssim[number] == pytest.approx(np.mean(ssim), abs=1e-4)


@pytest.mark.parametrize("convention", ["paper", "fastmri"])
def test_a_frozen_heart_stands_beside_every_mask(beating, mask, convention):
    found = evaluate(mask, beating, "all", convention=convention, axes="slice frame y x")
    frozen = found.temporal.frozen
    for number, series in enumerate(beating.astype(np.float64)):
        low = series.min() if convention == "paper" else 0
        target = (series - low) / (series.max() - low)
        wanted = by_hand(np.broadcast_to(target.mean(0), target.shape), target, region(series))
        assert frozen.psnr[number] == pytest.approx(wanted["psnr"], rel=1e-4)
        assert frozen.psnr_moving[number] == pytest.approx(wanted["psnr_moving"], rel=1e-4)
        assert frozen.nmse[number] == pytest.approx(wanted["nmse"], rel=1e-4)
        assert frozen.nmse_differences[number] == pytest.approx(1)
    summary = found.summary()
    assert summary["frozen"]["psnr"] == pytest.approx(np.mean(frozen.psnr))
    assert summary["psnr_moving"] == pytest.approx(np.mean(found.temporal.psnr_moving))
    assert summary["psnr_over_time"] == pytest.approx(np.mean(found.temporal.over_time, axis=0).tolist())
    assert summary["frozen"]["psnr_moving"] < summary["frozen"]["psnr"]


def test_a_still_series_has_nothing_that_moves():
    series = torch.rand(2, 1, 8, 8).expand(2, 4, 8, 8)
    found = evaluate(torch.arange(8)[:, None] % 2 == 0, series, "all", axes="slice frame y x").summary()
    assert found["psnr_moving"] is None
    assert found["nmse_differences"] is None
    assert found["frozen"]["psnr_moving"] is None


def test_complete_sampling_is_exact(beating):
    found = evaluate(torch.ones(FRAMES, SIZE, SIZE), beating, "all", axes="slice frame y x")
    assert min(found.psnr) > 100
    assert max(found.temporal.nmse_differences) < 1e-9


def test_moving_pixels_are_those_of_large_deviation(beating):
    found = moving_region(torch.from_numpy(beating)[:, None])
    wanted = np.stack([region(series) for series in beating])
    assert np.array_equal(found[:, 0].numpy(), wanted)
    assert 0 < wanted.mean() < 0.3


def test_a_mask_of_three_axes_is_for_frames_where_there_are_frames(mask):
    found = promask.evaluate(torch.ones(20, 96, 96), "cine", recon="zero-filled")
    assert found.data.shape == (1, 20, 96, 96)
    assert found.of == "series"


def test_a_mask_of_three_axes_is_for_volumes_where_there_are_none(tmp_path):
    np.save(tmp_path / "volumes.npy", np.random.default_rng(0).random((2, 4, 8, 8)))
    found = load_for_mask(str(tmp_path / "volumes.npy"), torch.ones(4, 8, 8), {})
    assert found.shape == (1, 4, 8, 8)
    assert not found.geometry.indexed


def test_masks_for_frames_of_volumes():
    series = torch.rand(5, 3, 8, 6)  # frame, z, y, x
    reading = {"axes": "frame z y x"}
    for shape in [(5, 3, 8, 6), (5, 3, 8, 1), (3, 8, 6)]:  # the last one is the same in all frames
        found = load_for_mask(series, torch.ones(shape), dict(reading))
        assert found.shape == (1, 5, 3, 8, 6)


def test_data_that_are_loaded_are_taken_as_they_are(beating, mask):
    data = load(beating, Reading(axes="slice frame y x"))
    assert load_for_mask(data, mask, {}) is data


def test_every_series_is_one_item(beating, mask):
    whole = evaluate(mask, beating, "all", axes="slice frame y x")
    alone = evaluate(mask, beating[1:2], "all", axes="slice frame y x")
    assert whole.psnr[1] == pytest.approx(alone.psnr[0], rel=1e-6)
    assert len(whole.psnr) == len(whole.temporal.psnr_moving) == 3


def test_a_frozen_heart_is_in_the_tables_of_a_comparison(beating, mask):
    data = load(beating, Reading(axes="slice frame y x"))
    conditions = Conditions(data, data)
    measure, frozen = conditions.measure, conditions.frozen()
    assert measure.of == "series"
    assert list(measure.metrics) == ["psnr", "psnr_moving", "ssim", "nmse", "nmse_differences"]
    assert frozen == vars(evaluate(mask, data, "all").temporal.frozen)
    quality = conditions.quality(mask)
    rows = [
        Scores(name, 1, 2.0, achieved, seconds, {key: np.array([values[key]]) for key in measure.metrics})
        for name, achieved, seconds, values in [
            ("mine", [2.0], [1.0], quality),
            ("frozen heart", [np.nan], [], frozen),
        ]
    ]
    comparison = Comparison("beating", measure, "3 series", ["a", "b", "c"], rows[:1], frozen=rows[1])
    first, second = [line for line in markdown(comparison).splitlines() if line.startswith(("| frozen", "| mine"))]
    assert first.startswith("| frozen heart | - | ")
    assert "**" not in first
    assert "**" in second
    assert records(comparison)[0]["nmse_differences"] == pytest.approx(1)
    assert records(comparison)[0]["achieved"] is None
    labels = [text.get_text() for text in quality_over_acceleration(comparison).legends[0].get_texts()]
    assert labels == ["frozen heart", "mine"]


def test_slices_have_no_frozen_heart():
    data = load(torch.rand(3, 16, 16))
    assert Conditions(data, data).frozen() is None


def test_records_keep_the_quality_of_series(beating, mask):
    summary = evaluate(mask, beating, "all", axes="slice frame y x").summary()
    found = Quality.from_json(Quality.from_json(summary).to_json())
    assert found.psnr_moving == summary["psnr_moving"]
    assert found.frozen == summary["frozen"]
    assert "frozen" not in Quality(4.0, 2, "test").to_json()
    rows = {**frozen_row(summary), "mask": summary}
    table = metrics_table(rows, columns_of(rows))
    assert [column.header.plain for column in table.columns][2:4] == ["PSNR (dB)", "PSNR moving (dB)"]
    assert [cell.plain for cell in table.columns[0].cells] == ["frozen heart", "mask"]


def test_the_density_of_frames_is_that_of_each_line(mask):
    pattern = pattern_of(mask, Geometry(axes=("frame", "ky", "kx"), indexed="frame"))
    lines = mask[:, :, 0].numpy()
    found = sampling_density(pattern.restrict(mask), pattern)
    assert found.directions == ("ky",)
    assert found.per_direction == (tuple(lines.sum(0).tolist()),)
    assert found.per_frame == tuple(lines.sum(1).tolist())
    assert found.largest_gap == (max(int(np.diff(np.flatnonzero(frame)).max()) for frame in lines),)
    assert found.calibration[0] >= 4
    assert lines[:, SIZE // 2 - found.calibration[0] // 2 :][:, : found.calibration[0]].all()


def test_the_point_spread_of_frames_is_in_x_f_space():
    """A lattice that is shifted by a line in every frame: one alias of the height of the peak, at another f."""
    lines = (torch.arange(SIZE) + torch.arange(FRAMES)[:, None]) % 2 == 0
    pattern = Pattern((FRAMES, SIZE, SIZE), (0, 1), directions=("frame", "ky", "kx"), indexed="frame")
    found = point_spread(lines, pattern)
    spread = np.abs(np.fft.fftn(lines.numpy())) / lines.sum().item()
    assert found.directions == ("ky",)
    assert found.side_lobe == pytest.approx(1)
    assert np.sort(spread.ravel())[-2:] == pytest.approx([1, 1])
    assert found.average_side_lobe == pytest.approx(0, abs=1e-12)  # all frames together have every line
    assert found.width[0] == pytest.approx(1.207, abs=0.01)
    assert found.energy_outside == pytest.approx(0.5)


def test_noise_of_frames(mask, beating):
    """Averaging all frames divides the noise by the root of their number; one frame alone keeps it."""
    data = load(beating, Reading(axes="slice frame y x", coils=3))
    everything, sample = torch.ones(FRAMES, SIZE, SIZE, dtype=torch.bool), data[0]
    found = measure_noise(sample, everything, SumOfCoils(), 1.0, 64, indexed="frame")
    assert found.amplification.shape == (FRAMES, SIZE)
    assert found.amplification.nanmean() == pytest.approx(1, abs=0.05)
    averaged = measure_noise(sample, everything, SumOfCoils(average=True), 1.0, 64, indexed="frame")
    assert averaged.amplification.nanmean() == pytest.approx(FRAMES**-0.5, abs=0.03)
    assert averaged.where == f"position {SIZE // 2} of {SIZE} along axis 1"


class SumOfCoils:
    """Coils combined by their sensitivities, and perhaps the mean over frames."""

    name, uses_maps, iterative, temporal = "sum", True, False, True

    def __init__(self, average=False):
        self.average = average

    def reference(self, images, maps):
        return combine_coils(images, maps)

    def __call__(self, kspace, mask, maps=None):
        images = combine_coils(to_image(mask * kspace, space_axes(kspace.ndim - 3)), maps)
        return images.mean(2, keepdim=True).expand_as(images) if self.average else images
