"""Dice plus cross-entropy: against MONAI and PyTorch, pixel by pixel, and its gradient by differences."""

import math

import pytest
import torch
from monai.losses.dice import DiceLoss
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from helpers import seeded
from promask.segmentation.classes import SMOOTH, Classes, dice_cross_entropy
from promask.types import Sample

CLASSES = Classes(("wall", "blood"), (1, 2))
NESTED = Classes(("whole", "core"), (1, 2), overlapping=True)


def random_logits(outputs, count=4, size=(7, 6)):
    return 2 * torch.randn(count, outputs, *size, generator=seeded(), dtype=torch.float64)


def random_labels(count=4, size=(7, 6)):
    return torch.randint(0, 3, (count, *size), generator=seeded(1))


def encoded(labels, unlabelled, classes):
    """Labels of images in which the named classes were not annotated, and are therefore not there."""
    result = []
    for label, names in zip(labels, unlabelled, strict=True):
        for name in names:
            label = torch.where(label == classes.values[classes.names.index(name)], 0, label)
        result.append(classes.label(Sample(torch.ones(1, *label.shape), label, "anna", "scan", names)))
    return torch.stack(result)


def test_exclusive_classes_as_in_monai():
    logits, labels = random_logits(3), random_labels()
    dice = DiceLoss(include_background=False, to_onehot_y=True, softmax=True)(logits, labels.unsqueeze(1))
    torch.testing.assert_close(dice_cross_entropy(logits, labels, CLASSES), dice + cross_entropy(logits, labels))


def test_overlapping_regions_as_in_monai():
    logits, labels = random_logits(2), random_labels()
    regions = torch.stack([labels >= 1, labels >= 2], 1).double()
    dice = DiceLoss(sigmoid=True)(logits, regions)
    expected = dice + binary_cross_entropy_with_logits(logits, regions)
    torch.testing.assert_close(dice_cross_entropy(logits, labels, NESTED), expected)


def test_numbers_that_are_no_class_are_background():
    logits, labels = random_logits(3), random_labels()
    other = torch.where(labels == 0, 9, labels)
    assert dice_cross_entropy(logits, other, CLASSES) == dice_cross_entropy(logits, labels, CLASSES)


UNLABELLED = [
    [("wall",), (), ("wall",), ()],
    [("blood",), ("wall",), (), ("wall", "blood")],
    [("wall", "blood")] * 4,
]


def pixel_by_pixel(logits, labels, unlabelled, classes):
    """The loss from its description: what is hidden and the background count as one; its Dice does not count."""
    total = 0.0
    for scores, label, names in zip(logits, labels, unlabelled, strict=True):
        chances = scores.softmax(0)
        entropy = 0.0
        for place in torch.cartesian_prod(*map(torch.arange, label.shape)).tolist():
            at = (slice(None), *place)
            value = int(label[tuple(place)])
            allowed = [value] if value > 0 else [0, *(1 + classes.names.index(name) for name in names)]
            entropy -= math.log(sum(float(chances[at][output]) for output in allowed))
        losses = []
        for output, name in enumerate(classes.names, start=1):
            if name not in names:
                truth, found = (label == output).double(), chances[output]
                both, sizes = float((truth * found).sum()), float(truth.sum() + found.sum())
                losses.append(1 - (2 * both + SMOOTH) / (sizes + SMOOTH))
        total += entropy / label.numel() + (sum(losses) / len(losses) if losses else 0)
    return total / len(logits)


@pytest.mark.parametrize("unlabelled", UNLABELLED)
def test_hidden_classes(unlabelled):
    logits, labels = random_logits(3), encoded(random_labels(), unlabelled, CLASSES)
    assert (labels < 0).any()
    expected = pixel_by_pixel(logits, labels, unlabelled, CLASSES)
    assert float(dice_cross_entropy(logits, labels, CLASSES)) == pytest.approx(expected, rel=1e-12)


def test_hidden_regions_do_not_count():
    """Where the core was not annotated, its output has no gradient in the background, but the other one has."""
    logits = random_logits(2).requires_grad_()
    labels = encoded(random_labels(), [("core",)] * 4, NESTED)
    (gradient,) = torch.autograd.grad(dice_cross_entropy(logits, labels, NESTED), logits)
    assert (gradient[:, 1][labels < 0] == 0).all()
    assert (gradient[:, 0] != 0).all()


@pytest.mark.parametrize("classes", [CLASSES, NESTED], ids=["exclusive", "overlapping"])
@pytest.mark.parametrize("unlabelled", [[()] * 4, *UNLABELLED])
def test_gradients(classes, unlabelled):
    renamed = [tuple(classes.names[CLASSES.names.index(name)] for name in names) for names in unlabelled]
    labels = encoded(random_labels(size=(3, 2)), renamed, classes)
    logits = random_logits(classes.outputs, size=(3, 2)).requires_grad_()
    assert torch.autograd.gradcheck(lambda values: dice_cross_entropy(values, labels, classes), (logits,))


@pytest.mark.parametrize("classes", [CLASSES, NESTED], ids=["exclusive", "overlapping"])
@pytest.mark.parametrize("unlabelled", [[()] * 4, *UNLABELLED])
@pytest.mark.parametrize("size", [1e2, 1e4, 1e30])
def test_a_network_that_is_sure_and_wrong(classes, unlabelled, size):
    """Loss and gradients stay finite in single precision."""
    renamed = [tuple(classes.names[CLASSES.names.index(name)] for name in names) for names in unlabelled]
    labels = encoded(random_labels(), renamed, classes)
    logits = (size * random_logits(classes.outputs)).float().requires_grad_()
    loss = dice_cross_entropy(logits, labels, classes)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.isfinite()
    assert gradient.isfinite().all()


def test_a_perfect_segmentation_costs_nothing():
    labels = random_labels()
    logits = 1e3 * torch.nn.functional.one_hot(labels, 3).movedim(-1, 1).double()
    assert float(dice_cross_entropy(logits, labels, CLASSES)) == pytest.approx(0, abs=1e-12)
    nothing = torch.zeros_like(labels)
    logits = 1e3 * torch.nn.functional.one_hot(nothing, 3).movedim(-1, 1).double()
    assert float(dice_cross_entropy(logits, nothing, CLASSES)) == pytest.approx(0, abs=1e-12)
