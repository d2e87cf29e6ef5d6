import itertools
import math

import pytest
import torch
from scipy.stats import chisquare

from helpers import assert_global_random_state_is_untouched, seeded
from promask.errors import InputError
from promask.sampling.distribution import MaskDistribution
from promask.sampling.pattern import Pattern


def on_grid(theta, budget):
    theta = torch.as_tensor(theta)
    return MaskDistribution(theta, Pattern(tuple(theta.shape), tuple(range(theta.ndim))), budget)


def probability(mask, theta):
    return math.prod(p if m else 1 - p for m, p in zip(mask, theta, strict=True))


def test_mode_is_the_most_probable_mask_of_its_size():
    """Against all masks of three units out of seven."""
    theta = torch.rand(7, generator=seeded())
    masks = [[i in chosen for i in range(7)] for chosen in itertools.combinations(range(7), 3)]
    best = max(masks, key=lambda mask: probability(mask, theta.tolist()))
    assert on_grid(theta, 3).mode().tolist() == best


@pytest.mark.parametrize("shape", [(6, 6), (5, 7), (64, 64)])
@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_ties_go_to_the_centre(shape, value):
    distribution = on_grid(torch.full(shape, value), 9)
    mode = distribution.mode()
    assert mode.sum() == 9
    assert mode[shape[0] // 2, shape[1] // 2]
    farthest = distribution.pattern.distance()[mode].max()
    assert (distribution.pattern.distance()[~mode] >= farthest).all()
    assert torch.equal(mode, distribution.mode())


@pytest.mark.parametrize("axis", [0, 1])
def test_modes_and_samples_of_lines_are_whole_lines(axis):
    pattern = Pattern((8, 10), (axis,))
    distribution = MaskDistribution(torch.rand(pattern.units, generator=seeded()), pattern, budget=3)
    for mask in [distribution.mode(), *distribution.sample(5, seed=0), *distribution.sample_exact(5, seed=0)]:
        assert mask.shape == (8, 10)
        pattern.restrict(mask)
    assert pattern.restrict(distribution.mode()).sum() == 3
    assert [int(pattern.restrict(mask).sum()) for mask in distribution.sample_exact(5, seed=0)] == [3] * 5


def test_samples_have_the_given_probabilities():
    theta = torch.tensor([0.0, 0.05, 0.4, 0.9, 1.0])
    count = 40_000
    frequency = on_grid(theta, 2).sample(count, seed=0).double().mean(0)
    deviation = (theta * (1 - theta) / count).sqrt()
    assert ((frequency - theta).abs() <= 4 * deviation).all()


@pytest.mark.parametrize(
    "theta",
    [
        [0.1, 0.2, 0.6, 0.8, 0.5, 0.3],
        [0.9, 0.8, 0.95, 0.7, 0.9, 0.99],
        [1e-9, 2e-9, 3e-9, 1e-9, 5e-9, 1e-9],
        [1 - 1e-9, 0.5, 0.5, 1e-9, 2e-9, 0.5],
    ],
)
def test_exact_samples_follow_the_conditional_distribution(theta):
    """Against the probabilities of all 20 masks of three units out of six, given that three are acquired."""
    masks = list(itertools.combinations(range(6), 3))
    weights = [probability([i in chosen for i in range(6)], theta) for chosen in masks]
    count = 4000
    drawn = on_grid(torch.tensor(theta, dtype=torch.float64), 3).sample_exact(count, seed=0)
    names = [tuple(mask.nonzero().flatten().tolist()) for mask in drawn]
    observed = [names.count(mask) for mask in masks]
    assert sum(observed) == count
    expected = [count * weight / sum(weights) for weight in weights]
    frequent = [index for index, number in enumerate(expected) if number > 5]
    rest = [sum(numbers) - sum(numbers[index] for index in frequent) for numbers in (observed, expected)]
    assert rest[0] < 5 + 3 * rest[1]
    observed, expected = ([numbers[index] for index in frequent] for numbers in (observed, expected))
    assert chisquare(observed, [number * sum(observed) / sum(expected) for number in expected]).pvalue > 0.001


@pytest.mark.parametrize(
    ("theta", "always", "never"),
    [
        ([1.0, 1.0, 0.5, 0.5, 0.0, 0.0], [0, 1], [4, 5]),
        ([1.0, 0.5, 0.0, 0.0, 0.0, 0.0], [0, 1], []),
        ([1.0, 1.0, 1.0, 1.0, 0.5, 0.0], [], [4, 5]),
        ([1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0, 1, 2], [3, 4, 5]),
    ],
)
def test_exact_samples_of_certain_and_impossible_units(theta, always, never):
    drawn = on_grid(torch.tensor(theta), 3).sample_exact(300, seed=0)
    assert (drawn.sum(1) == 3).all()
    frequency = drawn.double().mean(0)
    assert all(frequency[i] == 1 for i in always)
    assert all(frequency[i] == 0 for i in never)
    undecided = [i for i in range(6) if i not in always + never]
    assert all(0 < frequency[i] < 1 for i in undecided)


def test_exact_samples_of_a_large_mask():
    """Exactly the budget, and on average the probabilities, scaled to the budget by one factor on the odds."""
    theta = torch.rand(256, 255, generator=seeded(), dtype=torch.float64) * 0.25
    distribution = on_grid(theta, 8192)
    masks = distribution.sample_exact(40, seed=0)
    assert masks.sum((1, 2)).tolist() == [8192] * 40
    frequency = masks.double().mean(0)
    for low, high in ((0, 0.05), (0.1, 0.15), (0.2, 0.25)):
        chosen = (theta >= low) & (theta < high)
        assert float(frequency[chosen].mean()) == pytest.approx(float(theta[chosen].mean()), rel=0.05)


@pytest.mark.parametrize(
    ("theta", "budget", "message"),
    [
        ([0.5, 1.5], 1, "from 0 to 1"),
        ([0.5, float("nan")], 1, "from 0 to 1"),
        ([0.5, 0.5], 3, "from 1 to 2 units"),
    ],
)
def test_what_is_no_distribution_is_refused(theta, budget, message):
    with pytest.raises(InputError, match=message):
        on_grid(torch.tensor(theta), budget)
    with pytest.raises(InputError, match="do not fit"):
        MaskDistribution(torch.rand(3), Pattern((2,), (0,)), 1)


def test_seeds():
    distribution = on_grid(torch.rand(8, 8, generator=seeded()), 16)
    for draw in (distribution.sample, distribution.sample_exact):
        assert torch.equal(draw(3, seed=5), draw(3, seed=5))
        assert not torch.equal(draw(3, seed=5), draw(3, seed=6))
        assert_global_random_state_is_untouched(lambda draw=draw: draw(3, seed=5))


def test_entropy_and_mean():
    assert on_grid(torch.full((4, 4), 0.5), 8).entropy() == pytest.approx(16)
    assert on_grid(torch.eye(4), 4).entropy() == 0
    lines = MaskDistribution(torch.tensor([0.2, 0.7]), Pattern((3, 2), (1,)), 1)
    torch.testing.assert_close(lines.mean(), torch.tensor([[0.2, 0.7]] * 3))


def test_padding_is_never_drawn():
    pattern = Pattern((2, 12), (1,), extent=((0, 2), (2, 10)))
    theta = torch.zeros(12)
    theta[4:6] = 1
    distribution = MaskDistribution(theta, pattern, budget=6)  # more than the possible ones: others must help
    for mask in [distribution.mode(), *distribution.sample_exact(20, seed=0)]:
        assert not mask[:, pattern.padding()].any()
        assert mask[0].sum() == 6
    with pytest.raises(InputError, match="Padding is never acquired"):
        MaskDistribution(torch.full((12,), 0.5), pattern, budget=6)
