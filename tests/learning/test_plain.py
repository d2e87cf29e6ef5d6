"""A learned mask does not fall short of masks that need no learning, on the images that it was learned from."""

import pytest
import torch

from helpers import samples_of, seeded, smooth_images
from promask import learn
from promask.baselines import baseline_mask
from promask.cli.main import main
from promask.data.arrays import from_images
from promask.data.sources import load
from promask.evaluation.images import reconstruct
from promask.learning.selection import reference_masks
from promask.losses.image import LOSSES, ImageLoss
from promask.problem.problem import MOST_IMAGES, mean_loss
from promask.sampling.pattern import Pattern

PATTERNS = {"2d": Pattern((18, 14), (0, 1)), "1d": Pattern((18, 14), (1,))}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_mean_loss_is_that_of_the_reconstructions(name, pattern):
    """Reconstructed by `evaluation`, one image at a time."""
    images = smooth_images(5, channels=2, size=(18, 14))
    units = torch.rand(pattern.unit_shape, generator=seeded()) < 0.4
    data = from_images(images)
    pairs = [reconstruct(pattern.expand(units), data, range(index, index + 1)) for index in range(5)]
    expected = sum(float(LOSSES[name](*pair)) for pair in pairs) / 5
    assert mean_loss(units, samples_of(images), pattern, ImageLoss(name)) == pytest.approx(expected)


def test_of_many_samples_some_decide():
    """At equal distances, the first one among them."""
    images = smooth_images(3 * MOST_IMAGES, size=(8, 8))
    pattern, task = Pattern((8, 8), (0, 1)), ImageLoss("mse")
    units = torch.rand((8, 8), generator=seeded()) < 0.4
    some = mean_loss(units, samples_of(images[::3]), pattern, task)
    assert mean_loss(units, samples_of(images), pattern, task) == pytest.approx(some)


@pytest.mark.parametrize("centre", [0, 3])
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_reference_masks_are_the_baselines(pattern, centre):
    images = smooth_images(4, channels=2, size=(18, 14))
    masks = reference_masks(samples_of(images), pattern, pattern.budget(4), centre)
    for name, units in masks.items():
        expected = baseline_mask(name, from_images(images), pattern, 4, centre=centre)
        assert torch.equal(pattern.expand(units), expected)


def test_a_plain_mask_takes_the_place_of_a_worse_one():
    """One step from a start at random leads nowhere."""
    images = smooth_images(4, size=(18, 14), dtype=torch.complex64)
    hurried = learn(from_images(images), 4, steps=1, init="uniform")
    pattern = hurried.distribution.pattern
    assert hurried.record.reference == "energy"
    assert torch.equal(hurried.mask, baseline_mask("energy", from_images(images), pattern, 4))
    assert torch.equal(hurried.probabilities, hurried.mask.float())
    assert learn(from_images(images), 4, preset="paper", steps=1, members=1).record.reference is None


def test_a_better_mask_stays():
    images = smooth_images(4, size=(18, 14), phase=False).float()
    run = learn(from_images(images), 4)
    assert run.record.reference is None
    pattern, samples, task = run.distribution.pattern, samples_of(images), ImageLoss("mse")
    plain = reference_masks(samples, pattern, run.distribution.budget, 0)
    assert not any(torch.equal(pattern.restrict(run.mask), units) for units in plain.values())
    learned = pattern.restrict(run.mask)
    assert all(
        mean_loss(learned, samples, pattern, task) < mean_loss(u, samples, pattern, task) for u in plain.values()
    )


def test_as_good_is_not_better():
    """Where everything is acquired, all masks are the same."""
    assert learn(smooth_images(4, size=(18, 14), phase=False).float(), 1).record.reference is None


def test_structural_similarity_wants_an_empty_background():
    """Of skull-stripped brains, no learned mask is as similar as the central block."""
    run = learn("brain", 8, loss="ssim", steps=40)
    assert run.record.reference == "centre"
    assert torch.equal(run.mask, baseline_mask("centre", load("brain"), run.distribution.pattern, 8))


def test_the_command_line_says_so(tmp_path, capsys, undrawn):
    with pytest.raises(SystemExit) as end:
        main(
            ["learn", "head", "--accel", "8", "--steps", "1", "--init", "uniform", "--out", str(tmp_path / "run")]
        )
    assert end.value.code == 0
    assert "Kept the mask of largest energy: the learned mask was not better on" in capsys.readouterr().out
