from importlib import import_module
from itertools import combinations

import pytest
import torch
from comparisons import heart_network, hearts
from hypothesis import given
from hypothesis import strategies as st

from helpers import smooth_images
from promask.baselines import baseline_mask
from promask.baselines.loupe import Correction
from promask.baselines.problem import BaselineProblem
from promask.data.sample_sets import ArraySet
from promask.errors import InputError
from promask.losses.image import LOSSES, ImageLoss
from promask.losses.segmentation import Segmentation
from promask.operators.fourier import to_image, to_kspace
from promask.problem.batches import SpectraSet
from promask.sampling.pattern import Pattern
from promask.segmentation.classes import dice_cross_entropy

# The package holds functions of these names, too.
energy, greedy, igs, loupe = (
    import_module(f"promask.baselines.{name}") for name in ("fixed", "searched", "searched", "loupe")
)


def a_set(*sizes, **settings):
    return ArraySet(smooth_images(*sizes, **settings), "test")


def loss_of(units, data, pattern, loss="mse"):
    """Of masks with any values, centred, without the package's gradients."""
    axes = tuple(range(-len(pattern.shape), 0))
    filled = to_image(to_kspace(data.images, axes) * pattern.expand(units.to(data.images.real.dtype)), axes)
    return float(LOSSES[loss](filled.abs(), data.images.abs()))


# Iterative gradient sampling


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("phase", [True, False])
def test_igs_adds_the_line_of_steepest_descent(loss, phase):
    """All lines one after the other, against finite differences."""
    data, pattern = a_set(3, 2, (9, 12), phase=phase), Pattern((9, 12), (1,))
    lines = torch.zeros(12, dtype=torch.float64)
    lines[6] = 1
    steps = torch.eye(12, dtype=torch.float64) * 1e-6
    for count in range(2, 8):
        slopes = [
            loss_of(lines + step, data, pattern, loss) - loss_of(lines - step, data, pattern, loss)
            for step in steps
        ]
        slopes = torch.tensor(slopes).masked_fill(lines > 0, torch.inf)
        lines = igs.igs(BaselineProblem(pattern, 12 / count, data, task=ImageLoss(loss))).double()
        assert lines.sum() == count
        # Twins of a Hermitian spectrum are worth the same.
        assert slopes[lines > 0].min() < slopes.min() + 1e-3 * slopes.min().abs()
        assert sum(slopes[lines > 0] < torch.inf) == 1


def test_igs_as_published_has_one_line_more():
    data, pattern = a_set(3, 1, (9, 12), dtype=torch.complex64), Pattern((9, 12), (1,))
    published, exact = (baseline_mask(name, data, pattern, 4) for name in ("igs-paper", "igs"))
    assert published[0].sum() == 4
    assert exact[0].sum() == 3
    assert published[exact].all()
    assert baseline_mask("igs-paper", data, pattern, 1).all()


def test_igs_of_locations_in_few_sweeps(monkeypatch):
    """As good as one location at a time to a few percent, and better than all at once."""
    data, pattern = a_set(3, 1, (16, 12)), Pattern((16, 12), (0, 1))
    problem = BaselineProblem(pattern, 2, data)
    losses = []
    for sweeps in (96, 24, 1):
        monkeypatch.setattr(igs, "SWEEPS", sweeps)
        losses.append(loss_of(igs.igs(problem), data, pattern))
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    assert losses[1] < losses[2]


@given(first=st.integers(1, 50), more=st.integers(0, 20000), sweeps=st.integers(1, 100))
def test_sizes_grow_to_the_last(first, more, sweeps):
    found = igs.sizes(first, first + more, sweeps)
    assert len(found) <= sweeps
    assert [first, *found] == sorted({first, *found, first + more})


# Swaps


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("free", [(0, 1), (1,), (0,)])
@pytest.mark.parametrize("phase", [True, False])
def test_greedy_is_not_worse_than_where_it_starts(loss, free, phase):
    data, pattern = a_set(3, 2, (16, 12), phase=phase), Pattern((16, 12), free)
    problem = BaselineProblem(pattern, 3, data, task=ImageLoss(loss), centre=2)
    before, after = energy.energy(problem), greedy.greedy(problem)
    assert loss_of(after, data, pattern, loss) <= loss_of(before, data, pattern, loss)
    assert after[problem.block()].all()


@pytest.mark.parametrize("phase", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_swaps_find_the_best_lines(seed, phase):
    """From the worst place to start, against all sets of lines: the best one, or one that is hardly worse."""
    data, pattern = a_set(2, 1, (8, 10), seed=seed, phase=phase), Pattern((8, 10), (1,))
    every = [torch.isin(torch.arange(10), torch.tensor(lines)) for lines in combinations(range(10), 4)]
    losses = [loss_of(units, data, pattern) for units in every]
    worst, none = every[losses.index(max(losses))], torch.zeros(10, dtype=torch.bool)
    found = greedy.swap_units(
        worst, none, greedy.MaskLoss(SpectraSet(data, torch.device("cpu")), pattern, ImageLoss("mse"))
    )
    assert found.sum() == 4
    assert loss_of(found, data, pattern) <= 1.05 * min(losses)


def test_greedy_looks_a_bounded_number_of_times(monkeypatch):
    data, pattern = a_set(2, 1, (16, 12)), Pattern((16, 12), (0, 1))
    problem = BaselineProblem(pattern, 3, data, task=ImageLoss("ssim"))
    monkeypatch.setattr(greedy, "TRIALS", 0)
    assert torch.equal(greedy.greedy(problem), energy.energy(problem))


# Through a network


@pytest.mark.parametrize(("make", "free"), [(igs.igs, (1,)), (igs.igs, (0, 1)), (greedy.greedy, (0, 1))])
def test_masks_for_a_network(make, free):
    """Lower in its loss than those for the image, and the network stays as it is."""
    network = heart_network(steps=25)
    noisy = torch.nn.Sequential(torch.nn.Dropout(0.5), network).train()
    images, labels = (torch.from_numpy(each) for each in hearts(6))
    data, pattern = ArraySet(images[:, None], "hearts", labels), Pattern((24, 20), free)
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    tasks = Segmentation(noisy, classes=network.classes), Segmentation(network), None
    for_it, without_noise, for_images = (
        baseline_mask(make.__name__, data, pattern, 3, task=task) for task in tasks
    )
    assert torch.equal(for_it, without_noise)
    assert pattern.restrict(for_it).sum() == pattern.budget(3)
    assert network_loss(for_it, network, images, labels) <= network_loss(for_images, network, images, labels)
    assert (for_it != for_images).any()
    assert all(module.training for module in noisy.modules())
    assert all(parameter.requires_grad for parameter in noisy.parameters())
    assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())


def network_loss(mask, network, images, labels):
    with torch.no_grad():
        filled = to_image(to_kspace(images, (-2, -1)) * mask, (-2, -1)).abs()
        return float(dice_cross_entropy(network(filled[:, None]), labels, network.classes))


def test_loupe_needs_a_loss_of_images():
    images, labels = (torch.from_numpy(each) for each in hearts(2))
    data, task = ArraySet(images[:, None], "hearts", labels), Segmentation(heart_network())
    with pytest.raises(
        InputError, match="from a loss of images, and not from segmentation: choose one of mse, l1"
    ):
        baseline_mask("loupe", data, Pattern((24, 20), (0, 1)), 3, task=task)


# LOUPE


@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=30), st.floats(0.001, 0.999))
def test_rescaled_probabilities_keep_the_budget(values, share):
    found = loupe.rescale(torch.tensor(values, dtype=torch.float64), share)
    assert float(found.mean()) == pytest.approx(share)
    assert found.min() >= -1e-9
    assert found.max() <= 1 + 1e-9
    order = torch.tensor(values, dtype=torch.float64).argsort(stable=True)
    assert (found[order].diff() >= -1e-9).all()


def test_probabilities_of_the_centre_and_the_padding():
    pattern = Pattern((8, 12), (0, 1), extent=((0, 8), (3, 12)))
    found = loupe.Probabilities(BaselineProblem(pattern, 4, a_set(1, 1, (8, 12)), centre=3))
    values = torch.fft.fftshift(found().detach())
    assert (values[pattern.padding()] == 0).all()
    assert (values[3:6, 5:8] == 1).all()
    assert float(values.sum()) == pytest.approx(pattern.budget(4), rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_loupe_learns(loss, monkeypatch):
    """Every logit and the network move, the loss falls, and the mask is better than a random one."""
    monkeypatch.setattr(loupe, "STEPS", 60)
    data, pattern = a_set(6, 2, (16, 20), dtype=torch.complex64), Pattern((16, 20), (0, 1))
    task = ImageLoss(loss)
    problem = BaselineProblem(pattern, 4, data, task=task)
    probabilities = loupe.Probabilities(problem)
    losses = loupe.train(probabilities, SpectraSet(data, torch.device("cpu")), problem, task)
    if loss == "psnr":  # decibels: the error itself is what falls
        losses = [10 ** (each / 10) for each in losses]
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])
    assert (probabilities.logits != 0).all()
    learned, random = (baseline_mask(name, data, pattern, 4, task=task) for name in ("loupe", "random"))
    assert loss_of(learned, data, pattern) < 0.6 * loss_of(random, data, pattern)


def test_loupe_knows_no_scale(monkeypatch):
    monkeypatch.setattr(loupe, "STEPS", 5)
    data, pattern = a_set(3, 1, (16, 20), dtype=torch.complex64), Pattern((16, 20), (0, 1))
    larger = ArraySet(data.images * 1024, "test")
    assert torch.equal(*(baseline_mask("loupe", each, pattern, 4) for each in (data, larger)))


@pytest.mark.parametrize("size", [(5,), (182,), (18, 22), (7, 9, 20)])
def test_corrections_fit_images_of_any_size(size):
    """They start at 0; another seed is another network, and the channels do not mix."""
    images = smooth_images(2, 3, size, dtype=torch.complex64)
    networks = [Correction(len(size), seed) for seed in (0, 0, 1)]
    assert (networks[0](images) == 0).all()
    for network in networks:
        network.gain.data.fill_(1)
    first, again, other = (network(images) for network in networks)
    assert first.shape == images.shape
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert torch.allclose(networks[0](images[:, 1:2]), first[:, 1:2], atol=1e-5)


def test_learned_masks_of_volumes(monkeypatch):
    monkeypatch.setattr(loupe, "STEPS", 2)
    data = a_set(2, 1, (8, 10, 9), dtype=torch.complex64)
    for name in ("igs", "greedy", "loupe"):
        for free in ((0, 1, 2), (1, 2)):
            pattern = Pattern((8, 10, 9), free)
            mask = baseline_mask(name, data, pattern, 5)
            assert pattern.restrict(mask).sum() == pattern.budget(5)
