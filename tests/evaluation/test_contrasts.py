"""Series of contrasts: quality against scikit-image, T2 against SciPy's curve fit, and who gets the scan time."""

import numpy as np
import pytest
import torch
from scipy.optimize import curve_fit
from skimage.metrics import peak_signal_noise_ratio

import promask
from promask.baselines import baseline_mask
from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputError
from promask.evaluation.contrasts import fit_t2, t2_errors
from promask.evaluation.evaluate import evaluate
from promask.evaluation.tables import records
from promask.report.comparison import compare
from promask.sampling.limits import LimitSettings
from promask.sampling.pattern import Pattern

SIZE = 32
TIMES = (10.0, 20.0, 30.0, 40.0)
AXES = "slice contrast y x"


@pytest.fixture(scope="module")
def brains():
    """Six slices of a smooth and a detailed contrast, (slice, contrast, y, x), of different scales."""
    rng = np.random.default_rng(0)
    spectrum = np.fft.fft2(rng.standard_normal((6, 2, SIZE, SIZE)))
    distance = np.hypot(*np.meshgrid(np.fft.fftfreq(SIZE), np.fft.fftfreq(SIZE))) * SIZE
    falls = np.stack([np.exp(-distance / 1.5), 1 / (1 + distance)])
    images = np.abs(np.fft.ifft2(spectrum * falls))
    return (images * np.array([500, 1])[:, None, None]).astype(np.float32)


def split(run):
    """How many lines each contrast has."""
    return run.distribution.pattern.restrict(run.mask).sum(1).tolist()


def test_each_contrast_is_measured_by_itself(brains):
    mask = torch.zeros(2, SIZE, SIZE, dtype=torch.bool)
    mask[0, 10:22], mask[1, 14:18] = True, True
    result = evaluate(mask, brains, axes=AXES, per="contrast", part="all")
    for index, series in enumerate(brains):
        values = []
        for contrast, (image, lines) in enumerate(zip(series, mask.numpy(), strict=True)):
            kspace = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image)))
            found = np.abs(np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(kspace * lines))))
            low, high = image.min(), image.max()
            scaled = np.clip((found - low) / (high - low), 0, 1)
            values.append(peak_signal_noise_ratio((image - low) / (high - low), scaled, data_range=1))
            assert np.isclose(result.contrasts.psnr_of_contrasts[index][contrast], values[-1], atol=1e-3)
        assert np.isclose(result.psnr[index], np.mean(values), atol=1e-3)
        assert np.isclose(result.values("psnr_worst")[index], min(values), atol=1e-3)
    assert len(result.summary()["psnr_of_contrasts"]) == 2
    assert "t2_error" not in result.summary()


def test_t2_is_that_of_a_curve_fit():
    rng = np.random.default_rng(1)
    truth, height = rng.uniform(15, 80, 20), rng.uniform(0.5, 2, 20)
    echoes = height[:, None] * np.exp(-np.array(TIMES) / truth[:, None])
    noisy = echoes + 0.002 * rng.standard_normal(echoes.shape)
    found = fit_t2(torch.from_numpy(noisy.T[None, None]).float(), TIMES).flatten()
    for row, value in zip(noisy, found.tolist(), strict=True):
        (_, wanted), _ = curve_fit(lambda t, a, t2: a * np.exp(-t / t2), TIMES, row, p0=(1, 40))
        assert abs(value - wanted) < 0.02 * wanted
    assert fit_t2(torch.ones(1, 1, 4, 2), TIMES).tolist() == [[[160.0, 160.0]]], "no decay: the longest"


def test_the_error_of_t2_is_that_of_tissue():
    t2 = torch.full((1, 1, 8, 8), 40.0)
    decay = torch.exp(-torch.tensor(TIMES)[:, None, None] / t2).reshape(1, 1, 4, 8, 8)
    decay[..., :4] = 0.01 * torch.rand(1, 1, 4, 8, 4, generator=torch.Generator().manual_seed(0))
    wrong = torch.exp(-torch.tensor(TIMES)[:, None, None] / (t2 + 3)).reshape(1, 1, 4, 8, 8)
    assert t2_errors(decay, decay, TIMES) == [0.0]
    assert np.isclose(t2_errors(wrong, decay, TIMES)[0], 3, atol=1e-3), "whatever the background does"


def test_echoes_give_an_error_of_t2(tmp_path):
    rng = np.random.default_rng(2)
    rows, columns = np.mgrid[:24, :24] - 12
    disc = (np.hypot(rows, columns) < 9) * (1 + 0.1 * rng.random((4, 24, 24)))
    t2 = np.where(rows < 0, 30, 60)
    image = disc[:, None] * np.exp(-np.array(TIMES)[:, None, None] / t2)
    np.savez(tmp_path / "echoes.npz", image=image.astype(np.float32), echo_time_ms=TIMES)
    masks = (np.tile((np.abs(np.arange(24) - 12) < most)[:, None], (4, 1, 24)) for most in (13, 3))
    full, blurred = (evaluate(mask, tmp_path / "echoes.npz", per="contrast") for mask in masks)
    assert max(full.values("t2_error")) < 1e-3
    assert min(blurred.values("t2_error")) > 1


@pytest.mark.parametrize("learner", ["best-response", "exchange", "gumbel-adam"])
def test_scan_time_goes_where_it_is_worth_most(brains, learner):
    settings = {"axes": AXES, "per": "contrast", "acceleration": 4, "learner": learner, "part": "all"}
    free = promask.learn(brains, steps=30, batch_size=6, **settings)
    cheap = promask.learn(brains, steps=30, batch_size=6, cost={1: 4}, **settings)
    assert sum(split(free)) == 2 * SIZE // 4
    assert free.config.loss == "psnr"
    budget = cheap.distribution.budget
    assert budget == 5 * SIZE // 4
    assert split(cheap) @ np.array([1, 4]) <= budget
    assert split(cheap)[0] > split(free)[0], "lines of the other contrast cost more"


def test_the_learned_split_is_better_than_equal_numbers(brains, tmp_path):
    settings = {"axes": AXES, "per": "contrast", "accelerations": [4], "seeds": 1, "jobs": 1}
    methods = ["static-energy", "equal-energy", "promask:equal", "promask"]
    comparison = compare(brains, out=tmp_path / "out", methods=methods, **settings)
    psnr = {row.method: row.mean("psnr") for row in comparison.scores}
    assert psnr["promask:1d"] > psnr["promask:1d:equal"] + 0.1
    assert all(row.achieved == [4.0] for row in comparison.scores)
    assert "promask:1d:equal" in (tmp_path / "out" / "differences.csv").read_text(), "is one of the others"
    assert records(comparison)


def test_baselines_pay_what_lines_cost(brains):
    data = load(brains, Reading(axes=AXES, per="contrast"))
    pattern = LimitSettings(cost={1: 3}).on(Pattern.on(data.shape[1:], data.geometry))
    for name in ("energy", "equal-energy", "static-energy", "static-variable-density", "random", "centre"):
        units = pattern.restrict(baseline_mask(name, data, pattern, 4))
        assert pattern.spent(units) == pattern.budget(4), name
    equal = pattern.restrict(baseline_mask("equal-energy", data, pattern, 4)).sum(1).tolist()
    assert equal == [8, 8]
    with pytest.raises(InputError, match="igs masks cannot weigh `cost`"):
        baseline_mask("igs", data, pattern, 4)
    with pytest.raises(InputError, match="kt-lattice masks are for frames, not for contrasts"):
        baseline_mask("kt-lattice", data, pattern, 4)


def test_a_run_of_contrasts_is_kept_whole(brains, tmp_path):
    np.savez(tmp_path / "brains.npz", image=brains, channels=["smooth", "fine"], subject=list("abcdef"))
    run = promask.learn(tmp_path / "brains.npz", 4, per="contrast", cost={"fine": 2.5}, steps=3)
    run.save(tmp_path / "run")
    again = promask.Run.load(tmp_path / "run")
    assert torch.equal(again.mask, run.mask)
    assert again.distribution.pattern == run.distribution.pattern
    assert again.config.cost == (("fine", 2.5),)
    assert f"smooth {split(run)[0]}, fine {split(run)[1]} of {SIZE} lines each" in repr(run)
    assert "of 112 s for the lines of 2 contrasts" in repr(run)
    assert again.acceleration == run.acceleration >= 4
    assert evaluate(again, tmp_path / "brains.npz").psnr == evaluate(run, tmp_path / "brains.npz").psnr
