"""Dice and intersection over union: by hand, and as MONAI has them."""

import math

import pytest
import torch
from monai.metrics.meandice import compute_dice
from monai.metrics.meaniou import compute_iou

from helpers import seeded
from promask.segmentation.classes import Classes, overlap, overlap_of

NONE = torch.zeros(1, 1, 4, dtype=torch.bool)


def region(*pixels):
    result = NONE.clone()
    result[0, 0, list(pixels)] = True
    return result


@pytest.mark.parametrize(
    ("predicted", "truth", "dice", "iou"),
    [
        (region(0, 1), region(0, 1), 1, 1),
        (region(0, 1), region(2), 0, 0),
        (region(), region(2), 0, 0),
        (region(0, 1, 2), region(2), 1 / 2, 1 / 3),
        (region(0, 1), region(1, 2), 1 / 2, 1 / 3),
        (region(0, 1, 2, 3), region(1, 2), 2 / 3, 1 / 2),
    ],
)
def test_by_hand(predicted, truth, dice, iou):
    scores = overlap(predicted, truth, NONE)
    assert float(scores.dice) == pytest.approx(dice, rel=1e-15)
    assert float(scores.iou) == pytest.approx(iou, rel=1e-15)


@pytest.mark.parametrize("predicted", [region(), region(1)])
def test_what_is_not_there_has_no_score(predicted):
    scores = overlap(predicted, region(), NONE)
    assert math.isnan(float(scores.dice))
    assert math.isnan(float(scores.iou))


def test_what_was_not_annotated_has_no_score():
    scores = overlap(region(1), region(1, 2), region(3))
    assert math.isnan(float(scores.dice))
    assert math.isnan(float(scores.iou))


@pytest.mark.parametrize("overlapping", [False, True])
def test_as_in_monai(overlapping):
    classes = Classes(("a", "b", "c"), (1, 2, 3), overlapping)
    labels = torch.randint(0, 4, (5, 6, 7), generator=seeded())
    labels[1], labels[2] = 0, labels[2].clamp_max(1)
    logits = torch.randn(5, classes.outputs, 6, 7, generator=seeded(1))
    scores = overlap_of(logits, labels, classes)
    truth = classes.regions(labels).float()
    if overlapping:
        found = (logits.sigmoid() > 0.5).float()
    else:
        found = torch.nn.functional.one_hot(logits.argmax(1), 4).movedim(-1, 1)[:, 1:].float()
    for ours, theirs in ((scores.dice, compute_dice), (scores.iou, compute_iou)):
        expected = theirs(found, truth, include_background=True).double()
        assert ours.isnan().sum() >= 5
        torch.testing.assert_close(ours, expected, equal_nan=True, rtol=1e-6, atol=0)


def test_hidden_classes_of_labels():
    """Of two images, one without an annotation of `a`: the number -1 in its background."""
    classes = Classes(("a", "b"), (1, 2))
    labels = torch.tensor([[[0, 1, 2]], [[-1, -1, 2]]])
    logits = torch.nn.functional.one_hot(torch.tensor([[[0, 1, 2]], [[1, 1, 2]]]), 3).movedim(-1, 1).float()
    dice = overlap_of(logits, labels, classes).dice
    assert dice[0].tolist() == [1, 1]
    assert math.isnan(float(dice[1, 0]))
    assert dice[1, 1] == 1
