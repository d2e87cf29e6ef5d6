"""How sure promask is to be better: intervals against SciPy and simulations."""

import math

import numpy as np
import pytest
import scipy.stats
from comparisons import compared, row

from promask.evaluation.bootstrap import Advantage, advantages, paired_interval
from promask.evaluation.conventions import METRICS
from promask.evaluation.tables import markdown

pytestmark = pytest.mark.usefixtures("few_images_will_do")


def test_few_images_have_no_interval(monkeypatch):
    for module in ("bootstrap", "tables"):
        monkeypatch.setattr(f"promask.evaluation.{module}.FEWEST", 3)
    comparison = compared(row("energy", [[28, 32]]), row("promask", [[30, 32]]))
    assert [each.interval for each in advantages(comparison)] == [None] * 3
    assert "Too few for a confidence interval: 2 images." in markdown(comparison)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_interval_is_that_of_scipy(level):
    differences = np.random.default_rng(3).exponential(size=40)
    expected = scipy.stats.bootstrap(
        (differences,), np.mean, n_resamples=40_000, confidence_level=level, method="percentile", rng=1
    ).confidence_interval
    found = paired_interval(differences, resamples=40_000, level=level)
    # The Monte Carlo error of a percentile of 40000 draws is about 1 % of the standard error.
    assert found == pytest.approx(tuple(expected), abs=0.05 * differences.std() / math.sqrt(40))


def test_images_of_a_subject_are_drawn_together():
    """20 subjects of 8 images that resemble each other: drawn one by one, images are too sure of themselves."""
    generator = np.random.default_rng(0)
    subjects = [f"subject{index // 8}" for index in range(160)]
    covered = {"together": 0, "alone": 0}
    for seed in range(200):
        values = generator.normal(0, 2, 20).repeat(8) + generator.normal(0, 1, 160)
        for how, known in (("together", subjects), ("alone", ["one"] * 160)):
            low, high = paired_interval(values, known, seed, resamples=400)
            covered[how] += low < 0 < high
    assert 0.85 < covered["together"] / 200 < 0.99
    assert covered["alone"] / 200 < 0.7


def test_subjects_of_different_sizes():
    """Against a bootstrap written out: draw subjects, put their images together, take the mean."""
    generator = np.random.default_rng(1)
    subjects = list("aaabbcddddee")
    differences = generator.normal(size=len(subjects))
    of_subject = [differences[[s == name for s in subjects]] for name in "abcde"]
    means = [np.concatenate([of_subject[i] for i in generator.integers(5, size=5)]).mean() for _ in range(20_000)]
    assert paired_interval(differences, subjects) == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.03)
    assert paired_interval(differences, ["a"] * 12) == paired_interval(differences)  # too few to be drawn


def test_interval_covers_the_true_mean_as_often_as_it_says():
    generator = np.random.default_rng(0)
    intervals = [paired_interval(generator.normal(0.3, 1, 40), (), seed, 500, 0.9) for seed in range(400)]
    covered = np.mean([low < 0.3 < high for low, high in intervals])
    assert 0.84 < covered < 0.94  # about 0.885 for 40 images, with a standard deviation of 0.016


def test_interval_is_the_same_however_it_is_computed(monkeypatch):
    differences = np.random.default_rng(1).normal(size=7)
    state = np.random.get_state()[1].copy()
    whole = paired_interval(differences, resamples=1000)
    assert np.array_equal(state, np.random.get_state()[1])
    assert paired_interval(differences, resamples=1000) == whole
    assert paired_interval(differences, seed=1, resamples=1000) != whole
    monkeypatch.setattr("promask.evaluation.bootstrap.CHUNK", 7 * 30)
    in_chunks = paired_interval(differences, resamples=1000)
    assert in_chunks == pytest.approx(whole, abs=0.15)


def test_advantage_is_over_the_best_that_is_as_free_or_less(tiny):
    others = [
        row("lines:2d", [[50, 50]]),
        row("worse", [[10, 10]], free=1),
        row("promask:1d", [[23, 25]], free=1),
    ]
    found = {(each.method, each.acceleration, each.metric): each for each in advantages(tiny)}
    assert list(found) == [("promask", x, metric) for x in (4.0, 8.0) for metric in ("psnr", "ssim", "nmse")]
    psnr = found["promask", 4.0, "psnr"]
    # Means over seeds 30 and 32, those of the best other 28 and 32: differences 2 and 0.
    assert (psnr.other, psnr.mean, psnr.interval) == ("energy", 1, (0, 2))
    assert psnr.better is None
    assert (psnr.worst, psnr.gaining, psnr.each) == (0, 1, (2, 0))
    found = {(each.method, each.metric): each for each in advantages(compared(*tiny.at(4.0), *others))}
    assert found["promask", "psnr"].other == "lines:2d"
    assert found["promask", "psnr"].mean == -19
    assert found["promask", "psnr"].better is False
    assert found["promask", "nmse"].mean > 0
    assert found["promask", "nmse"].better is False
    # Of rows with one free axis, lines_1 is best: means over seeds 21 and 23.
    lines = found["promask:1d", "psnr"]
    assert (lines.other, lines.mean, lines.interval, lines.better) == ("lines_1", 2, (2, 2), True)
    assert found["promask:1d", "nmse"].mean < 0
    assert found["promask:1d", "nmse"].better is True


@pytest.mark.parametrize(
    ("metric", "interval", "better"),
    [
        ("psnr", (0.1, 0.2), True),
        ("psnr", (-0.2, -0.1), False),
        ("psnr", (-0.1, 0.1), None),
        ("psnr", (0.0, 0.1), None),
        ("psnr", None, None),
        ("nmse", (-0.2, -0.1), True),
        ("nmse", (0.1, 0.2), False),
    ],
)
def test_better_means_that_the_whole_interval_says_so(metric, interval, better):
    assert Advantage("promask", 4, metric, "energy", 0.0, interval, METRICS[metric].sign, (0.0,)).better is better


def test_the_worst_gains_least_whichever_way_is_better():
    def found(sign):
        return Advantage("promask", 4, "psnr", "energy", 0.0, None, sign, (-0.3, 0.0, 0.1, 0.2))

    assert (found(1).worst, found(1).gaining) == (-0.3, 2)
    assert (found(-1).worst, found(-1).gaining) == (0.2, 1)


def test_one_image_has_no_interval():
    found = advantages(compared(row("energy", [[30]]), row("promask", [[31]])))
    assert [(each.mean, each.interval) for each in found[:1]] == [(1, None)]
    text = markdown(compared(row("energy", [[30]]), row("promask", [[31]])))
    assert "| x4 | promask | PSNR (dB) | energy | +1.00 | +1.00, 1 of 1 |" in text


def test_a_row_without_rivals_has_no_advantage(tiny):
    alone = compared(*(scores for scores in tiny.scores if scores.is_promask))
    assert advantages(alone) == []
    assert "minus" not in markdown(alone)
